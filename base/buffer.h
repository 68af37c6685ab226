/* SPDX-License-Identifier: MIT */
/*
 * buffer: a queue of bytes in one piece of memory: added at the end, taken from the front. What leaves it is wiped, and
 * so is memory it moves out of, because secrets may pass through. Zeroed memory is an empty queue. No input or output.
 */
#ifndef HP_BUFFER_H
#define HP_BUFFER_H

#include <stddef.h>
#include <stdint.h>

typedef struct hp_buffer {
    uint8_t *memory;
    size_t head, tail, room; /* memory[head .. tail) is held */
} hp_buffer;

static inline size_t
hp_buffer_size(const hp_buffer *buffer)
{
    return buffer->tail - buffer->head;
}

/* The first byte held; valid until the queue is changed. NULL: it has no memory yet. */
static inline const uint8_t *
hp_buffer_first(const hp_buffer *buffer)
{
    return buffer->memory ? buffer->memory + buffer->head : NULL;
}

/*
 * Room for n bytes behind the last one, NULL when memory runs out; hp_buffer_grown is called with the number that was
 * filled.
 */
uint8_t *hp_buffer_room(hp_buffer *buffer, size_t n);
void hp_buffer_grown(hp_buffer *buffer, size_t n);

/* 0, or -1 when memory runs out: then nothing was added. */
int hp_buffer_add(hp_buffer *buffer, const void *data, size_t n) __attribute__((warn_unused_result));

void hp_buffer_drop(hp_buffer *buffer, size_t n); /* n <= size */
void hp_buffer_free(hp_buffer *buffer);           /* empty again */

#endif
