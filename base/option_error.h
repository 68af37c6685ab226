/* SPDX-License-Identifier: MIT */
/* option_error: what is wrong with an option that getopt_long has refused, and which one the user may have meant. Pure. */
#ifndef HP_OPTION_ERROR_H
#define HP_OPTION_ERROR_H

#include <getopt.h>
#include <stddef.h>

/*
 * Writes a sentence such as "there is no option --onces; the nearest one is --once". refused: what getopt_long has
 * returned, '?' or, because the short options begin with a colon, ':' where a value is missing; word: the argument, which
 * is argv[optind - 1]; value: optopt. Returns out.
 */
const char *hp_option_error(int refused, const char *word, int value, const struct option *options, char *out,
                            size_t size);

#endif
