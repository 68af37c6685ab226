/* SPDX-License-Identifier: MIT */
/*
 * number: whole numbers in decimal, as users write them in options, settings and files. Pure. Each function returns 1,
 * or 0 and leaves *value alone where the text is not a number or the number is out of range.
 */
#ifndef HP_NUMBER_H
#define HP_NUMBER_H

#include <stddef.h>
#include <stdint.h>

/* All of `text`; blanks around the number and a sign are allowed. */
int hp_number_parse(const char *text, int64_t least, int64_t most, int64_t *value);

/* The same for a field of type int. */
int hp_number_parse_int(const char *text, int least, int most, int *value);

/* The same with an optional unit behind it: k, m or g, or kB, mB or gB, in either case; powers of 1024. */
int hp_number_parse_bytes(const char *text, int64_t least, int64_t most, int64_t *value);

/* A part of a longer text: exactly n characters, all of them digits. */
int hp_number_parse_digits(const char *text, size_t n, int most, int *value);

#endif
