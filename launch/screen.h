/* SPDX-License-Identifier: MIT */
/*
 * screen: the lines of several writers, merged into one stream of bytes. No two writers share a line, whole lines are
 * never torn, and each may have a label in front. Pure: bytes and the time in, bytes out.
 *
 * If the stream is a terminal (live), an unfinished line is shown, too, a moment after it was written, unless the
 * cursor is in another writer's line. The same holds for a progress bar, a line that begins again and again with a
 * carriage return: one writer's bar is shown at a time, the first one, until its line ends; of the others only the
 * last state is kept. If the stream is not live, an unfinished line is held until its newline comes or its writer
 * ends. A line of more than HP_LINES_MAX bytes goes on in pieces.
 *
 * Labels may be lazy: they begin when a second label has output; output of one rank alone has none. The first output
 * is then held for a moment, so that all ranks are labelled if all of them greet.
 */
#ifndef HP_LAUNCH_SCREEN_H
#define HP_LAUNCH_SCREEN_H

#include "base/buffer.h"

/*
 * Turns a stream of bytes into whole lines. It holds a partial line until its newline comes or the stream ends; a line
 * longer than 64 KiB goes on in pieces. No byte is lost, added or changed. It holds at most HP_LINES_MAX bytes plus one
 * feed.
 */
enum { HP_LINES_MAX = 64 * 1024 };

typedef struct hp_lines {
    hp_buffer held;
    int raw; /* passes everything on at once: there is only one writer */
} hp_lines;

/* Gets 1 to HP_LINES_MAX bytes: whole lines, or a piece of a long or unfinished one. */
typedef void hp_lines_fn(void *arg, const uint8_t *bytes, size_t n);

void hp_lines_feed(hp_lines *lines, const void *bytes, size_t n, hp_lines_fn *emit, void *arg);
void hp_lines_end(hp_lines *lines, hp_lines_fn *emit, void *arg); /* the stream is over: emits and frees what is held */

#define HP_SCREEN_WAIT (100 * HP_MS) /* how long an unfinished line waits for its end */

typedef struct hp_screen hp_screen;

typedef struct hp_screen_options {
    int writers;   /* numbered from 0; the bytes of a single writer are passed on as they come */
    int per_label; /* writers that share a label, "[writer / per_label] "; 0: no labels */
    int lazy;      /* no labels until a second one is needed */
    int live;
    hp_buffer *out; /* receives all output */
} hp_screen_options;

hp_screen *hp_screen_new(const hp_screen_options *options);
void hp_screen_feed(hp_screen *screen, int writer, const uint8_t *bytes, size_t n, uint64_t now);
void hp_screen_end(hp_screen *screen, int writer);       /* shows what it holds; it may write again */
void hp_screen_say(hp_screen *screen, const char *line); /* a line of no writer; newline added */
void hp_screen_done(hp_screen *screen);                  /* all writers have ended: nothing is held back */
uint64_t hp_screen_due(hp_screen *screen, uint64_t now); /* shows what has waited; when to call again, or HP_NEVER */
void hp_screen_free(hp_screen *screen);

#endif
