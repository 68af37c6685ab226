/* SPDX-License-Identifier: MIT */
/* usage: texts made of options.def: --help, the list for the shell's completion, and advice for unknown options. */
#ifndef HP_LAUNCH_USAGE_H
#define HP_LAUNCH_USAGE_H

#include <stddef.h>
#include <stdio.h>

/* Whether `word`, without its dashes, is among the names of a row of options.def. */
int hp_usage_has(const char *names, const char *word);

void hp_usage_print(FILE *to);
void hp_usage_list(void); /* a line for every name: the name, its kind, its value */

/* Advice about an unknown option; "": none. */
void hp_usage_advice(const char *word, char *out, size_t size);

#endif
