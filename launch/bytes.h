/* SPDX-License-Identifier: MIT */
/*
 * bytes: a queue of bytes in one piece of memory: added at the end, taken from the front. What leaves it is wiped, and
 * so is memory it moves out of, because the job's secret may pass through. Zeroed memory is an empty queue.
 */
#ifndef HP_BYTES_H
#define HP_BYTES_H

#include <stddef.h>
#include <stdint.h>

typedef struct hp_bytes {
    uint8_t *memory;
    size_t head, tail, room; /* memory[head .. tail) is held */
} hp_bytes;

static inline size_t
hp_bytes_size(const hp_bytes *bytes)
{
    return bytes->tail - bytes->head;
}

/* The first byte held; valid until the queue is changed. */
static inline const uint8_t *
hp_bytes_first(const hp_bytes *bytes)
{
    return bytes->memory + bytes->head;
}

/* Room for n bytes behind the last one; hp_bytes_grown says how many were filled. */
uint8_t *hp_bytes_room(hp_bytes *bytes, size_t n);
void hp_bytes_grown(hp_bytes *bytes, size_t n);

void hp_bytes_add(hp_bytes *bytes, const void *data, size_t n);
void hp_bytes_drop(hp_bytes *bytes, size_t n); /* n <= size */
void hp_bytes_free(hp_bytes *bytes);           /* empty again */

#endif
