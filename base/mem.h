/* SPDX-License-Identifier: MIT */
/*
 * mem: memory of this process: zeroed heap memory, private pages, memory for keys; and arithmetic on its sizes and places.
 * The caller owns it, and frees heap memory with free().
 */
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

/* --- for keys --- */

enum { HP_SECMEM_MOST = 256 };

/*
 * `bytes` (at most HP_SECMEM_MOST), zeroed; NULL when memory runs out. It is locked if the system allows it, and in no core
 * file. Any thread may call it. In a forked child the parent's rooms are zero and stay where they are; what the child
 * allocates is its own.
 */
void *hp_secmem_new(size_t bytes);
void hp_secmem_free(void *memory); /* wipes it first; NULL is fine */

/* For hoop's own programs, which hold little but keys and pipes: no core file, and only root may trace, until exec. */
void hp_secmem_hide_process(void);

#endif
