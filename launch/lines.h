/* SPDX-License-Identifier: MIT */
/*
 * lines: turns a stream of bytes into whole lines, so that the output of ranks can be merged line by line. It holds a
 * partial line until its newline comes or the stream ends; a line longer than 64 KiB goes on in pieces. No byte is
 * lost, added or changed. Pure.
 */
#ifndef HP_LAUNCH_LINES_H
#define HP_LAUNCH_LINES_H

#include "base/buffer.h"

enum { HP_LINES_MAX = 64 * 1024 };

typedef struct hp_lines {
    hp_buffer held;
    int raw; /* passes everything on at once: there is only one writer */
} hp_lines;

/* Gets 1 to HP_LINES_MAX bytes: whole lines, or a piece of a long or unfinished one. */
typedef void hp_lines_fn(void *arg, const uint8_t *bytes, size_t n);

void hp_lines_feed(hp_lines *lines, const void *bytes, size_t n, hp_lines_fn *emit, void *arg);
void hp_lines_end(hp_lines *lines, hp_lines_fn *emit, void *arg); /* the stream is over: emits and frees what is held */

#endif
