/* SPDX-License-Identifier: MIT */
/* option_list: the options of a program as completions/ read them, from the table that getopt_long reads. */
#ifndef HP_OPTION_LIST_H
#define HP_OPTION_LIST_H

#include <getopt.h>
#include <stdio.h>

/* What follows an option. An option without a row has any value, or none if it takes none. */
typedef struct hp_option_kind {
    int option;        /* as in struct option's val; 0 ends a table of these */
    const char *kind;  /* file, folder or choice; hidden: the option is not listed */
    const char *value; /* of a choice its words, as in "auto|never" */
} hp_option_kind;

/*
 * Prints a line for each option: its name, its kind, its value; a second line with its letter, if it has one among
 * getopt_long's short options. Of several names for one val the first is listed.
 */
void hp_option_list(FILE *to, const struct option *options, const char *letters, const hp_option_kind *kinds);

#endif
