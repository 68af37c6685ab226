/* SPDX-License-Identifier: MIT */
/*
 * option: the names of options and settings, as users write them: which known one a mistyped one may have meant, what is
 * wrong with an option that getopt_long has refused, and the list that completions/ read. Case does not count. Pure.
 */
#ifndef HP_OPTION_H
#define HP_OPTION_H

#include <getopt.h>
#include <stddef.h>
#include <stdio.h>

enum { HP_DISTANCE_MAX = 63 }; /* characters of a name; a longer one has an infinite distance */

/* Letters to change, insert or delete to make one name of the other (Levenshtein); SIZE_MAX: a name is too long. */
size_t hp_distance(const char *a, const char *b);

/*
 * Finds the known name that is nearest to a mistyped one. Call hp_nearest_try for each known name; it returns 1 if
 * that name is the best so far, and the caller notes it. A name that shares less than half with the mistyped one, or
 * differs from it in more than five letters, never is.
 */
typedef struct hp_nearest {
    const char *word; /* the mistyped name */
    size_t distance;  /* a better name has a smaller distance */
} hp_nearest;

hp_nearest hp_nearest_of(const char *word);
int hp_nearest_try(hp_nearest *nearest, const char *name);

/*
 * What is wrong with an option: a sentence such as "there is no option --onces; the nearest one is --once". refused: what
 * getopt_long has returned, '?' or, because the short options begin with a colon, ':' where a value is missing; word: the
 * argument, which is argv[optind - 1], but for a letter that has others behind it; value: optopt. Returns out.
 */
const char *hp_option_error(int refused, const char *word, int value, const struct option *options, char *out,
                            size_t size);

/* What follows an option. An option without a row has any value, or none if it takes none. */
typedef struct hp_option_kind {
    int option;        /* as in struct option's val; 0 ends a table of these */
    const char *kind;  /* file, folder or choice; hidden: the option is not listed */
    const char *value; /* of a choice its words, as in "auto|never" */
} hp_option_kind;

/*
 * For completions/, prints a line for each option: its name, its kind, its value; a second line with its letter, if it has one among
 * getopt_long's short options. Of several names for one val the first is listed.
 */
void hp_option_list(FILE *to, const struct option *options, const char *letters, const hp_option_kind *kinds);

#endif
