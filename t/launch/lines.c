/* SPDX-License-Identifier: MIT */
/* Merging of output: whole lines whatever the pieces they come in, not a byte lost, added or changed. */
#include "launch/lines.h"

#include "launch/verdict.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

typedef struct sink {
    hp_buffer bytes;
    int pieces, broken; /* pieces that did not end with a newline */
    size_t largest;
} sink;

static void
take(void *arg, const uint8_t *bytes, size_t n)
{
    sink *s = arg;
    hp_buffer_add(&s->bytes, bytes, n);
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

static void
join(void *arg, const char *line)
{
    char *out = arg;
    snprintf(out + strlen(out), 8192 - strlen(out), "%s|", line);
}

static void
check_last_words(void)
{
    char seen[8192] = "", line[40];
    hp_buffer words = {0};
    hp_tail_each_line(&words, join, seen);
    is_string("", seen, "no words, no lines");
    for (int i = 0; i < 500; i++) {
        snprintf(line, sizeof(line), "line %d\n", i);
        hp_tail_add(&words, (const uint8_t *)line, strlen(line));
    }
    ok(hp_buffer_size(&words) <= HP_TAIL_BYTES, "last words are bounded");
    hp_tail_add(&words, (const uint8_t *)"the\x1b[31m end", 12);
    hp_tail_each_line(&words, join, seen);
    is_string("line 491|line 492|line 493|line 494|line 495|line 496|line 497|line 498|line 499|the?[31m end|", seen,
              "the last ten lines, made harmless");
    hp_buffer_free(&words);
}

static void
check_verdicts(void)
{
    hp_rank_exit e = {.rank = 3, .pid = 811, .host = "node2", .program = "./train", .status = 9, .ms = 12449};
    char *sentence = hp_rank_exit_sentence(&e, 7);
    is_string("rank 3 (node2, pid 811, ./train) killed by signal 9 (SIGKILL) after 12.4 s; stopping 7 others", sentence,
              "the verdict of the manual");
    free(sentence);
    e.status = 7 << 8;
    sentence = hp_rank_exit_sentence(&e, 1);
    is_string("rank 3 (node2, pid 811, ./train) exited with status 7 after 12.4 s; stopping 1 other", sentence,
              "an exit status");
    free(sentence);
    e.status = 11 | 0x80;
    sentence = hp_rank_exit_sentence(&e, 0);
    is_string("rank 3 (node2, pid 811, ./train) killed by signal 11 (SIGSEGV), core dumped, after 12.4 s", sentence,
              "the last one, with a core");
    free(sentence);
    is_int(7, hp_exit_status(7 << 8), "exit status 7");
    is_int(137, hp_exit_status(9), "128 + 9");
    ok(hp_rank_exit_precedes(9, 1 << 8) && !hp_rank_exit_precedes(1 << 8, 9) && !hp_rank_exit_precedes(9, 11),
       "a signal is the cause of an exit that comes with it");
}

int
main(void)
{
    tap_limit(60);
    plan_lazy();
    check_small();
    check_raw();
    check_long();
    for (int round = 0; round < 20; round++)
        check_random(round);
    check_last_words();
    check_verdicts();
    return 0;
}
