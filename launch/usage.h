/* SPDX-License-Identifier: MIT */
/* usage: what hooprun says of its own options, out of options.def: --help, the completion's list, and advice. */
#ifndef HP_LAUNCH_USAGE_H
#define HP_LAUNCH_USAGE_H

#include <stddef.h>
#include <stdio.h>

/* Whether `word`, without its dashes, is among the names of a row of options.def. */
int hp_usage_has(const char *names, const char *word);

void hp_usage_print(FILE *to);
void hp_usage_list(void); /* a line for every name: it, and what it takes */

/* What to do about an option that is none of ours; "" when nothing is known. */
void hp_usage_advice(const char *word, char *out, size_t size);

#endif
