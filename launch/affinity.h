/* SPDX-License-Identifier: MIT */
/*
 * affinity: which of a host's processors each rank is bound to (--bind). Neighbours in the ring get neighbouring
 * processors; a core is not divided as long as there is one for every rank. Pure, except for reading the machine.
 */
#ifndef HP_LAUNCH_AFFINITY_H
#define HP_LAUNCH_AFFINITY_H

#include <sched.h>

typedef struct hp_cpu {
    int package, core, number; /* as Linux counts them; a core is told by the first of its hyperthreads */
} hp_cpu;

typedef struct hp_cpu_list {
    hp_cpu *list; /* by package, core, number */
    int count;
} hp_cpu_list;

/* Those that this process may run on. A cpus that does not tell its cores has one for each processor. */
void hp_affinity_read(hp_cpu_list *cpus);
void hp_affinity_sort(hp_cpu_list *cpus);
void hp_affinity_free(hp_cpu_list *cpus);

/* The set of the i-th of so many ranks, one processor at least; of no processors an empty one. */
void hp_affinity_of_rank(const hp_cpu_list *cpus, int ranks, int i, cpu_set_t *set);

#endif
