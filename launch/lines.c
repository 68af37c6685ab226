/* SPDX-License-Identifier: MIT */
/* lines: see lines.h. It holds at most HP_LINES_MAX bytes plus one feed. */
#include "launch/lines.h"

#include "launch/xalloc.h"

#include <string.h>

/* How many of the held bytes may go now: up to the last newline of the first 64 KiB, or a full piece without one. */
static size_t
cut(const hp_lines *lines)
{
    size_t size = hp_buffer_size(&lines->held);
    size_t window = size < HP_LINES_MAX ? size : HP_LINES_MAX;
    const uint8_t *first = hp_buffer_first(&lines->held);
    if (size == 0 || lines->raw)
        return window;
    const uint8_t *newline = memrchr(first, '\n', window);
    if (newline)
        return (size_t)(newline - first) + 1;
    return window == HP_LINES_MAX ? window : 0;
}

void
hp_lines_feed(hp_lines *lines, const void *bytes, size_t n, hp_lines_fn *emit, void *arg)
{
    size_t ready;
    hp_xbuffer_add(&lines->held, bytes, n);
    while ((ready = cut(lines)) > 0) {
        emit(arg, hp_buffer_first(&lines->held), ready);
        hp_buffer_drop(&lines->held, ready);
    }
}

void
hp_lines_end(hp_lines *lines, hp_lines_fn *emit, void *arg)
{
    size_t left = hp_buffer_size(&lines->held);
    if (left > 0)
        emit(arg, hp_buffer_first(&lines->held), left);
    hp_buffer_free(&lines->held);
}
