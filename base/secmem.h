/* SPDX-License-Identifier: MIT */
/*
 * secmem: memory for keys: locked where the system allows it, in no core file, zero in a forked child. And for programs
 * of ours that hold nothing but keys and pipes: no core file and no tracer at all.
 */
#ifndef HP_SECMEM_H
#define HP_SECMEM_H

#include <stddef.h>

enum { HP_SECMEM_MOST = 256 };

/*
 * `bytes` (at most HP_SECMEM_MOST) of it, zeroed; NULL when memory runs out. Any thread. In a forked child what the parent
 * had is zero and stays where it is; what the child asks for is its own.
 */
void *hp_secmem_new(size_t bytes);
void hp_secmem_free(void *memory); /* wipes it first; NULL is fine */

/* This process leaves no core file, and only root may look into it; until it becomes another program. */
void hp_secmem_hide_process(void);

#endif
