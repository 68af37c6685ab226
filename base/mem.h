/* SPDX-License-Identifier: MIT */
/* mem: zeroed heap memory, private pages, and a multiplication that notices overflow. */
#ifndef HP_MEM_H
#define HP_MEM_H

#include <stddef.h>

void *hp_alloc(size_t count, size_t size); /* zeroed; NULL when memory runs out or count * size overflows */
char *hp_strdup(const char *text);         /* NULL returns NULL */

/* Private pages (mmap), zeroed, page-aligned, absent in forked children. NULL when memory runs out. */
void *hp_pages(size_t bytes);
void hp_pages_free(void *pages, size_t bytes);

/* Returns 1 with *product = a * b, or 0 on overflow. */
int hp_mul(size_t a, size_t b, size_t *product);

/* Whether [a, a+na) and [b, b+nb) share a byte. */
int hp_overlap(const void *a, size_t na, const void *b, size_t nb);

/* Overwrites a secret in a way that the compiler cannot remove. */
void hp_wipe(void *bytes, size_t length);

#endif
