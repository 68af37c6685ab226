/* SPDX-License-Identifier: MIT */
/* text: words of others, before a terminal shows them. Pure. */
#ifndef HP_TEXT_H
#define HP_TEXT_H

#include <stddef.h>

/*
 * Question marks in place of what could move a cursor: control characters of ASCII, those from 0x80 to 0x9f (0x9b is
 * CSI), and their UTF-8 form. Letters in UTF-8, and bytes from 0xa0 on, stay. `keep` ('\n', or 0: none) stays too.
 */
void hp_text_tame(char *text, size_t n, char keep);
int hp_text_is_tame(const char *text, size_t n, char keep);

#endif
