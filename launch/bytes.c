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
move(hp_bytes *bytes, size_t room)
{
    uint8_t *memory = hp_must(malloc(room));
    size_t size = hp_bytes_size(bytes);
    if (size != 0)
        memcpy(memory, hp_bytes_first(bytes), size);
    hp_bytes_free(bytes);
    *bytes = (hp_bytes){.memory = memory, .tail = size, .room = room};
}

uint8_t *
hp_bytes_room(hp_bytes *bytes, size_t n)
{
    size_t size = hp_bytes_size(bytes);
    size_t room = bytes->room ? bytes->room : SMALL;
    if (bytes->room - bytes->tail >= n && bytes->memory)
        return bytes->memory + bytes->tail;
    while (room - size < n || room / 2 < size)
        room *= 2;
    move(bytes, room);
    return bytes->memory + bytes->tail;
}

void
hp_bytes_grown(hp_bytes *bytes, size_t n)
{
    bytes->tail += n;
}

void
hp_bytes_add(hp_bytes *bytes, const void *data, size_t n)
{
    if (n == 0)
        return;
    memcpy(hp_bytes_room(bytes, n), data, n);
    hp_bytes_grown(bytes, n);
}

void
hp_bytes_drop(hp_bytes *bytes, size_t n)
{
    if (n == 0)
        return;
    hp_wipe(bytes->memory + bytes->head, n);
    bytes->head += n;
    if (bytes->head < bytes->tail)
        return;
    bytes->head = bytes->tail = 0;
    if (bytes->room > BIG)
        hp_bytes_free(bytes);
}

void
hp_bytes_free(hp_bytes *bytes)
{
    if (bytes->memory)
        hp_wipe(bytes->memory + bytes->head, hp_bytes_size(bytes));
    free(bytes->memory);
    *bytes = (hp_bytes){0};
}
