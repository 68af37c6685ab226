/* SPDX-License-Identifier: MIT */
/*
 * visit: while a call waits for long in one communicator, it gives the others of this process a turn that rest. Their
 * connections may have been reset, and another rank may wait for one of them in its own call, as in hoop_comm_destroy: without
 * that both would wait for each other.
 */
#ifndef HP_VISIT_H
#define HP_VISIT_H

#include "lib/comm.h"

/* For how long a thread may wait before it visits the others; HP_NEVER: there are none. */
uint64_t hp_visit_slice(void);

/* To be called again and again by a thread that waits in `mine`. next: 0 at first. A moment passes between two visits. */
void hp_visit_others(const hoop_comm *mine, uint64_t *next);

#endif
