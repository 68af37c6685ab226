/* SPDX-License-Identifier: MIT */
/*
 * screen: the lines of several writers, merged into one stream of bytes. No two writers share a line, whole lines are
 * never torn, and a label may stand in front of each. Pure: bytes and the time in, bytes out.
 *
 * Where the stream is a terminal (live) an unfinished line is shown too, a moment after it was written, if the line that
 * the cursor is in belongs to nobody else. So is one that begins again and again with a carriage return, as progress
 * bars do: of one writer at a time, the first one, until it has ended its line; of the others only what they last said.
 * Not live, an unfinished line is held until its newline comes or its writer ends. A line of more than HP_LINES_MAX
 * bytes goes on in pieces.
 *
 * Labels may wait for a second label to have something to say: what one rank writes alone has none. Its first words are
 * held for a moment then, so that ranks which all greet are all labelled.
 */
#ifndef HP_LAUNCH_SCREEN_H
#define HP_LAUNCH_SCREEN_H

#include "launch/lines.h"

#define HP_SCREEN_WAIT (100 * HP_MS) /* how long an unfinished line waits for its end */

typedef struct hp_screen hp_screen;

typedef struct hp_screen_options {
    int writers;   /* they are 0 ... writers - 1; a single one is passed on as it comes */
    int per_label; /* so many writers share a label, "[writer / per_label] "; 0: no labels */
    int lazy;      /* no labels until a second one is needed */
    int live;
    hp_buffer *out; /* where it all goes */
} hp_screen_options;

hp_screen *hp_screen_new(const hp_screen_options *options);
void hp_screen_feed(hp_screen *screen, int writer, const uint8_t *bytes, size_t n, uint64_t now);
void hp_screen_end(hp_screen *screen, int writer);       /* shows what it holds; it may write again */
void hp_screen_say(hp_screen *screen, const char *line); /* nobody's, in a line of its own; newline added */
void hp_screen_done(hp_screen *screen);                  /* nobody writes any more: nothing is held back */
uint64_t hp_screen_due(hp_screen *screen, uint64_t now); /* shows what has waited; when to call again, or HP_NEVER */
void hp_screen_free(hp_screen *screen);

#endif
