/* SPDX-License-Identifier: MIT */
/*
 * work_pool: a communicator's works: made when none lies ready, used again, freed with it. Any thread; what a work means
 * is for others to say.
 */
#ifndef HP_WORK_POOL_H
#define HP_WORK_POOL_H

#include "lib/comm.h"

/* One from the free list, zeroed but for its segment array; NULL when memory runs out. */
hoop_work *hp_work_pool_take(hoop_comm *comm);
void hp_work_pool_give(hoop_comm *comm, hoop_work *work);
void hp_work_pool_free(hoop_comm *comm); /* all that were ever made; nobody may hold one any more */

#endif
