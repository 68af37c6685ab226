/* SPDX-License-Identifier: MIT */
/* Merging of output: whole lines whatever the pieces they come in, not a byte lost, added or changed. */
#include "launch/screen.h"

#include "launch/xalloc.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct sink {
    hp_buffer bytes;
    int pieces, broken; /* pieces that did not end with a newline */
    size_t largest;
} sink;

static void
take(void *arg, const uint8_t *bytes, size_t n)
{
    sink *s = arg;
    hp_xbuffer_add(&s->bytes, bytes, n);
    s->pieces++;
    s->broken += bytes[n - 1] != '\n';
    s->largest = n > s->largest ? n : s->largest;
}

static void
check_small(void)
{
    hp_lines lines = {0};
    sink s = {0};
    hp_lines_feed(&lines, "par", 3, take, &s);
    is_int(0, s.pieces, "a partial line is held");
    hp_lines_feed(&lines, "tial\nand\nmo", 11, take, &s);
    is_int(1, s.pieces, "whole lines go together");
    is_blob("partial\nand\n", hp_buffer_first(&s.bytes), 12, "up to the last newline");
    hp_lines_end(&lines, take, &s);
    is_blob("partial\nand\nmo", hp_buffer_first(&s.bytes), 14, "the rest goes at the end");
    hp_lines_end(&lines, take, &s);
    is_int(2, s.pieces, "and only once");
    hp_buffer_free(&s.bytes);
}

static void
check_raw(void)
{
    hp_lines lines = {.raw = 1};
    sink s = {0};
    hp_lines_feed(&lines, "name? ", 6, take, &s);
    is_int(1, s.pieces, "one rank alone is not held back");
    hp_buffer_free(&s.bytes);
    hp_buffer_free(&lines.held);
}

static void
check_long(void)
{
    enum { LONG = 3 * HP_LINES_MAX + 100 };
    uint8_t *text = malloc(LONG);
    hp_lines lines = {0};
    sink s = {0};
    memset(text, 'x', LONG);
    text[LONG - 1] = '\n';
    hp_lines_feed(&lines, text, LONG, take, &s);
    is_int(4, s.pieces, "a line of 192 KiB and 100 bytes goes in four pieces");
    is_int(3, s.broken, "the last one with its newline");
    is_uint(HP_LINES_MAX, s.largest, "none larger than 64 KiB");
    is_blob(text, hp_buffer_first(&s.bytes), LONG, "all of it");
    hp_buffer_free(&s.bytes);
    hp_buffer_free(&lines.held);
    free(text);
}

/* Random bytes in random pieces: the same bytes come out, cut only behind newlines or at 64 KiB. */
static void
check_random(int round)
{
    size_t size = (size_t)(tap_random() % 400000), at = 0;
    uint8_t *text = malloc(size + 1);
    hp_lines lines = {0};
    sink s = {0};
    int rare = round % 2; /* newlines: one byte in 256, or hardly any */
    for (size_t i = 0; i < size; i++) {
        text[i] = (uint8_t)tap_random();
        if (rare && text[i] == '\n')
            text[i] = 0;
    }
    while (at < size) {
        size_t n = (size_t)(tap_random() % 9000) + 1;
        n = n < size - at ? n : size - at;
        hp_lines_feed(&lines, text + at, n, take, &s);
        at += n;
    }
    hp_lines_end(&lines, take, &s);
    ok(hp_buffer_size(&s.bytes) == size && (size == 0 || memcmp(hp_buffer_first(&s.bytes), text, size) == 0),
       "%zu random bytes come out as they went in", size);
    ok(s.largest <= HP_LINES_MAX && (rare || s.broken <= 1), "in whole lines");
    hp_buffer_free(&s.bytes);
    free(text);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    check_small();
    check_raw();
    check_long();
    for (int round = 0; round < 20; round++)
        check_random(round);
    return 0;
}
