/* SPDX-License-Identifier: MIT */
/*
 * bytes: the byte queue behind every pipe of the launcher and the agent. Grows by doubling, gives big memory back when
 * it runs empty. Does no input or output.
 */
#include "launch/bytes.h"

#include "base/mem.h"
#include "launch/xalloc.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL = 4096, BIG = 1 << 20 };

/* Moves what is held to the front of memory of `room` bytes. */
static void
move(hp_buffer *bytes, size_t room)
{
    uint8_t *memory = hp_xcheck(malloc(room));
    size_t size = hp_buffer_size(bytes);
    if (size != 0)
        memcpy(memory, hp_buffer_first(bytes), size);
    hp_buffer_free(bytes);
    *bytes = (hp_buffer){.memory = memory, .tail = size, .room = room};
}

uint8_t *
hp_buffer_room(hp_buffer *bytes, size_t n)
{
    size_t size = hp_buffer_size(bytes);
    size_t room = bytes->room ? bytes->room : SMALL;
    if (bytes->room - bytes->tail >= n && bytes->memory)
        return bytes->memory + bytes->tail;
    while (room - size < n || room / 2 < size)
        room *= 2;
    move(bytes, room);
    return bytes->memory + bytes->tail;
}

void
hp_buffer_grown(hp_buffer *bytes, size_t n)
{
    bytes->tail += n;
}

void
hp_buffer_add(hp_buffer *bytes, const void *data, size_t n)
{
    if (n == 0)
        return;
    memcpy(hp_buffer_room(bytes, n), data, n);
    hp_buffer_grown(bytes, n);
}

void
hp_buffer_drop(hp_buffer *bytes, size_t n)
{
    if (n == 0)
        return;
    hp_wipe(bytes->memory + bytes->head, n);
    bytes->head += n;
    if (bytes->head < bytes->tail)
        return;
    bytes->head = bytes->tail = 0;
    if (bytes->room > BIG)
        hp_buffer_free(bytes);
}

void
hp_buffer_free(hp_buffer *bytes)
{
    if (bytes->memory)
        hp_wipe(bytes->memory + bytes->head, hp_buffer_size(bytes));
    free(bytes->memory);
    *bytes = (hp_buffer){0};
}
