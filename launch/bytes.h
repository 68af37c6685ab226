/* SPDX-License-Identifier: MIT */
/*
 * bytes: a queue of bytes in one piece of memory: added at the end, taken from the front. What leaves it is wiped, and
 * so is memory it moves out of, because the job's secret may pass through. Zeroed memory is an empty queue.
 */
#ifndef HP_LAUNCH_BYTES_H
#define HP_LAUNCH_BYTES_H

#include <stddef.h>
#include <stdint.h>

typedef struct hp_buffer {
    uint8_t *memory;
    size_t head, tail, room; /* memory[head .. tail) is held */
} hp_buffer;

static inline size_t
hp_buffer_size(const hp_buffer *bytes)
{
    return bytes->tail - bytes->head;
}

/* The first byte held; valid until the queue is changed. */
static inline const uint8_t *
hp_buffer_first(const hp_buffer *bytes)
{
    return bytes->memory + bytes->head;
}

/* Room for n bytes behind the last one; hp_buffer_grown says how many were filled. */
uint8_t *hp_buffer_room(hp_buffer *bytes, size_t n);
void hp_buffer_grown(hp_buffer *bytes, size_t n);

void hp_buffer_add(hp_buffer *bytes, const void *data, size_t n);
void hp_buffer_drop(hp_buffer *bytes, size_t n); /* n <= size */
void hp_buffer_free(hp_buffer *bytes);           /* empty again */

#endif
