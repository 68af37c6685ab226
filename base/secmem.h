/* SPDX-License-Identifier: MIT */
/*
 * secmem: memory for keys: locked if the system allows it, in no core file, zero in a forked child. For hoop's own
 * programs, which hold little but keys and pipes, also: no core file and no tracer at all.
 */
#ifndef HP_SECMEM_H
#define HP_SECMEM_H

#include <stddef.h>

enum { HP_SECMEM_MOST = 256 };

/*
 * `bytes` (at most HP_SECMEM_MOST), zeroed; NULL when memory runs out. Any thread may call it. In a forked child the
 * parent's rooms are zero and stay where they are; what the child allocates is its own.
 */
void *hp_secmem_new(size_t bytes);
void hp_secmem_free(void *memory); /* wipes it first; NULL is fine */

/* This process leaves no core file, and only root may trace it, until it calls exec. */
void hp_secmem_hide_process(void);

#endif
