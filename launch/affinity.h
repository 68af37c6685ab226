/* SPDX-License-Identifier: MIT */
/*
 * share: which of a host's processors each of its ranks keeps to (--bind). Neighbours in the ring get neighbouring
 * shares; a core is not divided as long as there is one for every rank. Pure but for reading the machine.
 */
#ifndef HP_SHARE_H
#define HP_SHARE_H

#include <sched.h>

typedef struct hp_processor {
    int package, core, number; /* as Linux counts them; a core is told by the first of its hyperthreads */
} hp_processor;

typedef struct hp_machine {
    hp_processor *list; /* by package, core, number */
    int count;
} hp_machine;

/* Those that this process may run on. A machine that does not tell its cores has one for each processor. */
void hp_machine_read(hp_machine *machine);
void hp_machine_sort(hp_machine *machine);
void hp_machine_free(hp_machine *machine);

/* The share of the i-th of so many ranks, one processor at least; of no processors an empty one. */
void hp_share_cut(const hp_machine *machine, int ranks, int i, cpu_set_t *share);

#endif
