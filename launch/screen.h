/* SPDX-License-Identifier: MIT */
/*
 * screen: the lines of several writers, merged into one stream of bytes. No two writers share a line, whole lines are
 * never torn, and each may have a label in front. Pure: bytes and the time in, bytes out.
 *
 * If the stream is a terminal (live), an unfinished line is shown, too, a moment after it was written, unless the
 * cursor is in another writer's line. The same holds for a progress bar, a line that begins again and again with a
 * carriage return: one writer's bar is shown at a time, the first one, until its line ends; of the others only the
 * last state is kept. If the stream is not live, an unfinished line is held until its newline comes or its writer
 * ends. A line of more than HP_SCREEN_LINE bytes goes on in pieces.
 *
 * Labels may be lazy: they begin when a second label has output; output of one rank alone has none. The first output
 * is then held for a moment, so that all ranks are labelled if all of them greet.
 */
#ifndef HP_LAUNCH_SCREEN_H
#define HP_LAUNCH_SCREEN_H

#include "base/buffer.h"

enum { HP_SCREEN_LINE = 64 * 1024 };
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
