/* SPDX-License-Identifier: MIT */
/*
 * xalloc: owns nothing; everything it returns is freed with free().
 */
#include "launch/xalloc.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void *
hp_xcheck(void *memory)
{
    static const char sentence[] = "hooprun: out of memory\n";
    if (memory)
        return memory;
    if (write(STDERR_FILENO, sentence, sizeof(sentence) - 1) < 0)
        _exit(2);
    _exit(1);
}

void *
hp_xcalloc(size_t count, size_t size)
{
    return hp_xcheck(hp_alloc(count, size));
}

char *
hp_xstrdup(const char *text)
{
    return hp_xcheck(strdup(text));
}

char *
hp_xstrndup(const char *text, size_t n)
{
    return hp_xcheck(strndup(text, n));
}

void *
hp_xgrow(void *memory, size_t *room, size_t wanted, size_t size)
{
    size_t more = *room ? *room : 16;
    size_t bytes;
    if (wanted <= *room)
        return memory;
    while (more < wanted)
        more *= 2;
    char *grown = hp_xcheck(hp_mul(more, size, &bytes) ? realloc(memory, bytes) : NULL);
    memset(grown + *room * size, 0, (more - *room) * size);
    *room = more;
    return grown;
}

char *
hp_xvasprintf(const char *format, va_list ap)
{
    char *text;
    return vasprintf(&text, format, ap) < 0 ? hp_xcheck(NULL) : text;
}

char *
hp_xasprintf(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    char *text = hp_xvasprintf(format, ap);
    va_end(ap);
    return text;
}

uint8_t *
hp_xbuffer_room(hp_buffer *buffer, size_t n)
{
    return hp_xcheck(hp_buffer_room(buffer, n));
}

void
hp_xbuffer_add(hp_buffer *buffer, const void *data, size_t n)
{
    if (hp_buffer_add(buffer, data, n) < 0)
        hp_xcheck(NULL);
}

void
hp_strings_add(hp_strings *strings, char *word)
{
    strings->item = hp_xgrow(strings->item, &strings->room, strings->count + 2, sizeof(*strings->item));
    strings->item[strings->count++] = word;
    strings->item[strings->count] = NULL;
}

void
hp_strings_free(hp_strings *strings)
{
    for (size_t i = 0; i < strings->count; i++)
        free(strings->item[i]);
    free(strings->item);
    *strings = (hp_strings){0};
}

char *
hp_strings_join(char *const *item, size_t most)
{
    hp_buffer line = {0};
    for (size_t i = 0; i < most && item[i]; i++) {
        if (i > 0)
            hp_xbuffer_add(&line, " ", 1);
        hp_xbuffer_add(&line, item[i], strlen(item[i]));
    }
    hp_xbuffer_add(&line, "", 1);
    char *text = hp_xstrdup((const char *)hp_buffer_first(&line));
    hp_buffer_free(&line);
    return text;
}
