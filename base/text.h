/* SPDX-License-Identifier: MIT */
/* text: makes text from peers and files safe to print on a terminal. Pure. */
#ifndef HP_TEXT_H
#define HP_TEXT_H

#include <stddef.h>

/*
 * Replaces by question marks what could move a cursor: ASCII control characters, those from 0x80 to 0x9f (0x9b is
 * CSI), and their UTF-8 forms. Letters in UTF-8 stay, bytes from 0xa0 on too, and so does `keep` ('\n'; 0: none).
 */
void hp_text_tame(char *text, size_t n, char keep);
int hp_text_is_tame(const char *text, size_t n, char keep);

/* Whether it is a name to print in a sentence: whole characters of UTF-8, and no control characters. */
int hp_text_is_name(const char *text, size_t n);

/* Columns that it takes on a terminal: one for each character of UTF-8. */
size_t hp_text_width(const char *text);

/* The bytes of its first characters that take so many columns, or of all. */
size_t hp_text_first(const char *text, size_t columns);

#endif
