/* SPDX-License-Identifier: MIT */
/*
 * xalloc: memory for programs, and lists of words in it. A launcher or an agent without memory cannot do its work: it says so and ends. Its peer
 * (an agent of its launcher, a rank of its agent) notices and ends too. The library must not use this.
 */
#ifndef HP_LAUNCH_XALLOC_H
#define HP_LAUNCH_XALLOC_H

#include "base/buffer.h"

#include <stdarg.h>
#include <stddef.h>

void *hp_xcheck(void *memory);               /* returns `memory`; ends the program if it is NULL */
void *hp_xcalloc(size_t count, size_t size); /* zeroed */
char *hp_xstrdup(const char *text);
char *hp_xstrndup(const char *text, size_t n);
char *hp_xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2))); /* free() it */
char *hp_xvasprintf(const char *format, va_list ap) __attribute__((format(printf, 1, 0)));

/* An array with room for `wanted` elements; *room: how many it has room for. New elements are zeroed. */
void *hp_xgrow(void *memory, size_t *room, size_t wanted, size_t size);

typedef struct hp_strings {
    char **item; /* NULL-terminated once there is one */
    size_t count, room;
} hp_strings;

void hp_strings_add(hp_strings *strings, char *word); /* takes a malloc'd word */
void hp_strings_free(hp_strings *strings);
char *hp_strings_join(char *const *item, size_t most); /* "a b c": the first ones, or all up to NULL; free() it */

/* hp_buffer_room and hp_buffer_add, which cannot fail here. */
uint8_t *hp_xbuffer_room(hp_buffer *buffer, size_t n);
void hp_xbuffer_add(hp_buffer *buffer, const void *data, size_t n);

#endif
