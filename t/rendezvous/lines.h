/* SPDX-License-Identifier: MIT */
/* lines: what a table has printed, kept for the checks of a test. */
#ifndef T_LINES_H
#define T_LINES_H

enum { LINES = 600, LINE = 2048 };

extern char lines[LINES][LINE];
extern int count;

void keep(void *arg, const char *line);  /* for the `line` of a table; one for which there is no room is left out */
void forget(void);                       /* begins anew */
const char *line_with(const char *text); /* the first line that has this text; "": none has */

#endif
