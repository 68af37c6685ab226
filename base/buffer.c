/* SPDX-License-Identifier: MIT */
/*
 * buffer: grows by doubling, moves what is held to the front when it needs room there, and gives big memory back when it
 * runs empty. It never uses realloc, which would leave a copy of the bytes behind.
 */
#include "base/buffer.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL = 4096, BIG = 1 << 20 };

uint8_t *
hp_buffer_room(hp_buffer *buffer, size_t n)
{
    size_t size = hp_buffer_size(buffer), room = buffer->room ? buffer->room : SMALL;
    if (buffer->memory && buffer->room - buffer->tail >= n)
        return buffer->memory + buffer->tail;
    if (n > SIZE_MAX / 4 || size > SIZE_MAX / 4)
        return NULL;
    while (room - size < n || room / 2 < size)
        room *= 2;
    uint8_t *memory = malloc(room);
    if (!memory)
        return NULL;
    if (size != 0)
        memcpy(memory, hp_buffer_first(buffer), size);
    hp_buffer_free(buffer);
    *buffer = (hp_buffer){.memory = memory, .tail = size, .room = room};
    return memory + size;
}

void
hp_buffer_grown(hp_buffer *buffer, size_t n)
{
    buffer->tail += n;
}

int
hp_buffer_add(hp_buffer *buffer, const void *data, size_t n)
{
    uint8_t *room = n ? hp_buffer_room(buffer, n) : NULL;
    if (!room)
        return n ? -1 : 0;
    memcpy(room, data, n);
    hp_buffer_grown(buffer, n);
    return 0;
}

void
hp_buffer_drop(hp_buffer *buffer, size_t n)
{
    if (n == 0)
        return;
    hp_wipe(buffer->memory + buffer->head, n);
    buffer->head += n;
    if (buffer->head < buffer->tail)
        return;
    buffer->head = buffer->tail = 0;
    if (buffer->room > BIG)
        hp_buffer_free(buffer);
}

void
hp_buffer_free(hp_buffer *buffer)
{
    if (buffer->memory)
        hp_wipe(buffer->memory + buffer->head, hp_buffer_size(buffer));
    free(buffer->memory);
    *buffer = (hp_buffer){0};
}
