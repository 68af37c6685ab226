/* SPDX-License-Identifier: MIT */
/* Lines of several writers on one stream: whole lines on a pipe; on a terminal unfinished ones and progress bars too. */
#include "launch/screen.h"

#include "base/clock.h"
#include "t/tap/tap.h"

#include <stdlib.h>
#include <string.h>

enum { A = 0, B = 2, C = 4 }; /* standard outputs of ranks 0, 1, 2 */

static hp_buffer out;
static hp_screen *screen;
static uint64_t now = HP_SEC;

static void
begin(int ranks, int labels, int live)
{
    const hp_screen_options options = {
        .writers = ranks > 1 ? 2 * ranks : 1, .per_label = labels ? 2 : 0, .live = live, .out = &out};
    hp_buffer_free(&out);
    hp_screen_free(screen);
    screen = hp_screen_new(&options);
}

static void
says(int writer, const char *text)
{
    hp_screen_feed(screen, writer, (const uint8_t *)text, strlen(text), now);
    hp_screen_due(screen, now);
}

static void
time_passes(void)
{
    now += HP_SCREEN_WAIT;
    hp_screen_due(screen, now);
}

/* What has come out since the last look. */
static void
shows(const char *wanted, const char *text)
{
    size_t n = hp_buffer_size(&out);
    ok(n == strlen(wanted) && (n == 0 || memcmp(hp_buffer_first(&out), wanted, n) == 0), "%s", text);
    if (n != strlen(wanted) || (n > 0 && memcmp(hp_buffer_first(&out), wanted, n) != 0))
        diag("wanted '%s', saw '%.*s'", wanted, (int)n, (const char *)hp_buffer_first(&out));
    hp_buffer_free(&out);
}

static void
begin_lazy(void)
{
    const hp_screen_options options = {.writers = 6, .per_label = 2, .lazy = 1, .live = 1, .out = &out};
    hp_buffer_free(&out);
    hp_screen_free(screen);
    screen = hp_screen_new(&options);
}

static void
check_lazy(void)
{
    static char flood[HP_SCREEN_LINE + 2];
    begin_lazy();
    says(B, "one\n");
    shows("", "the first words wait for those of others");
    says(B, "two\n");
    is_int(1, hp_screen_due(screen, now) == now + HP_SCREEN_WAIT, "for a moment");
    time_passes();
    shows("one\ntwo\n", "and have no label if nobody else writes");
    says(B + 1, "warning\n");
    says(B, "three\n");
    shows("warning\nthree\n", "nor has what follows, on both of the rank's streams");
    says(A, "hello\n");
    says(B, "four\n");
    shows("[0] hello\n[1] four\n", "until a second rank writes");
    begin_lazy();
    says(B, "hello\n");
    hp_screen_end(screen, B);
    says(A, "hello\n");
    shows("[1] hello\n[0] hello\n", "ranks that all greet are all labelled, though the first has ended");
    begin_lazy();
    says(A, "part");
    hp_screen_end(screen, A);
    hp_screen_done(screen);
    shows("part", "nothing is held back in the end");
    begin_lazy();
    says(A, "early\n");
    hp_screen_say(screen, "hooprun: stopping");
    shows("early\nhooprun: stopping\n", "nor behind the launcher's words");
    begin_lazy();
    memset(flood, '\n', sizeof(flood) - 1);
    says(A, flood);
    shows(flood, "nor without bounds");
}

static void
check_pipe(void)
{
    begin(3, 1, 0);
    says(A, "par");
    time_passes();
    shows("", "on a pipe an unfinished line is held");
    says(B, "other\n");
    says(A, "tial\nand");
    shows("[1] other\n[0] partial\n", "until its end has come");
    hp_screen_end(screen, A);
    says(B, "\r10%\r20%\n");
    shows("[0] and\n[1] \r10%\r20%\n", "or its writer's; carriage returns are bytes like others");
}

static void
check_unfinished(void)
{
    begin(3, 1, 1);
    says(A, "name? ");
    shows("", "on a terminal an unfinished line waits a moment");
    is_int(1, hp_screen_due(screen, now) == now + HP_SCREEN_WAIT, "the owner hears when to look again");
    time_passes();
    shows("[0] name? ", "and is shown");
    says(A, "or");
    shows("or", "what follows at once");
    says(B, "half");
    time_passes();
    shows("", "while it is open nobody else's unfinished line is");
    is_int(1, hp_screen_due(screen, now) == HP_NEVER, "and nobody has to look");
    says(C, "whole\n");
    shows("\n[2] whole\n[1] half", "a whole one ends it, and the next has its turn");
    says(A, " number\n");
    shows("\n[0]  number\n", "the rest of the first begins a line of its own");
    says(B, "\n");
    shows("", "an end that another line has made already is not made again");
    says(A, "x");
    hp_screen_end(screen, A);
    hp_screen_say(screen, "hooprun: done");
    shows("[0] x\nhooprun: done\n", "the launcher's words have a line of their own");
}

static void
check_bars(void)
{
    begin(3, 1, 1);
    says(A, "\r 10%");
    shows("[0]  10%", "a progress bar is shown at once");
    says(B, "\r 11%");
    says(B, "\r 12%");
    shows("", "another rank's is not");
    says(A, "\r 20%");
    shows("\r[0]  20%", "the first goes on, behind its label");
    says(C, "epoch 1\n");
    shows("\n[2] epoch 1\n", "a line of a third rank ends it");
    says(B, "\r 13%");
    time_passes();
    shows("", "which is no reason for the second bar");
    says(A, "\r 30%");
    shows("[0]  30%", "the first comes back");
    says(A, "\r100%\nbye\n");
    shows("\r[0] 100%\n[0] bye\n[1]  13%", "and ends; now the second is shown, as it stands");
    says(C, "\r1%\r2%\r3%\r\n");
    shows("\n[2] 3%\r\n", "of a bar that nobody saw only the last words");
    hp_screen_end(screen, B);
    says(A, "50%\r");
    says(A, "60%\r");
    shows("[0] 50%\r[0] 60%\r", "one that goes back behind its words");
}

static void
check_one(void)
{
    begin(1, 0, 1);
    says(0, "a\rb");
    says(0, "c\r\n");
    shows("a\rbc\r\n", "one rank alone is passed on as it comes");
}

/* A long bar without an end must not fill the memory. */
static void
check_bound(void)
{
    begin(2, 0, 1);
    says(A, "\rfirst");
    for (int i = 0; i < 100000; i++)
        says(B, "\rsecond");
    shows("first", "a bar that is not shown is forgotten as it goes");
    hp_screen_end(screen, B);
    shows("\nsecond", "but for its last words");
}

/* Random bytes in random pieces come out as they went in. With rare newlines, lines are longer than the screen holds. */
static void
check_random(int round)
{
    size_t size = (size_t)(tap_random() % 400000), at = 0;
    uint8_t *text = malloc(size + 1);
    begin(2, 0, 0);
    for (size_t i = 0; i < size; i++)
        do
            text[i] = (uint8_t)tap_random();
        while (round % 2 && text[i] == '\n');
    while (at < size) {
        size_t n = (size_t)(tap_random() % 9000) + 1, before = hp_buffer_size(&out);
        n = n < size - at ? n : size - at;
        hp_screen_feed(screen, A, text + at, n, now);
        at += n;
        size_t after = hp_buffer_size(&out);
        if (after > before && round % 2 == 0 && hp_buffer_first(&out)[after - 1] != '\n')
            ok(0, "a line is cut");
        if (at - after > HP_SCREEN_LINE)
            ok(0, "%zu bytes are held", at - after);
    }
    hp_screen_end(screen, A);
    ok(hp_buffer_size(&out) == size && (size == 0 || memcmp(hp_buffer_first(&out), text, size) == 0),
       "%zu random bytes come out as they went in", size);
    free(text);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    check_pipe();
    check_unfinished();
    check_bars();
    check_one();
    check_lazy();
    check_bound();
    for (int round = 0; round < 20; round++)
        check_random(round);
    hp_screen_free(screen);
    hp_buffer_free(&out);
    return 0;
}
