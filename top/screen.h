/* SPDX-License-Identifier: MIT */
/* screen: text that fills the terminal and is drawn anew each second (ncurses). */
#ifndef HP_TOP_SCREEN_H
#define HP_TOP_SCREEN_H

#include "base/buffer.h"

int hp_top_screen_width(void); /* of the terminal that is standard output; 0: it is none */

/*
 * Shows what `fill` adds, whose arguments are the numbers of lines and columns, until q, Ctrl-C or TERM. The arrow keys
 * and space move through longer text. After a move down lines is 0, for all text, until a move up at the top. Returns 0,
 * or -1: the terminal is unknown (TERM), or this build lacks ncurses.
 */
int hp_top_screen_show(void (*fill)(hp_buffer *out, int lines, int columns));

#endif
