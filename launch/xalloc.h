/* SPDX-License-Identifier: MIT */
/*
 * must: memory for programs. A launcher or an agent without memory cannot do its work: it says so and ends, and whoever
 * waits for it (an agent for its launcher, a rank for its agent) notices and ends too. Not for the library.
 */
#ifndef HP_MUST_H
#define HP_MUST_H

#include <stddef.h>

void *hp_must(void *memory);                    /* the same, or the program ends */
void *hp_must_alloc(size_t count, size_t size); /* zeroed */
void *hp_must_grow(void *memory, size_t *room, size_t wanted,
                   size_t size); /* room: elements there are; new ones zeroed */
char *hp_must_print(const char *format, ...) __attribute__((format(printf, 1, 2))); /* free() it */

#endif
