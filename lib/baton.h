/* SPDX-License-Identifier: MIT */
/*
 * baton: one a communicator; only who holds it touches channels, links, client and fault. Who wants it asks the holder
 * to hand it over, and waits as long as it likes. The holder may be stuck in a GPU's driver, so a wait has an end.
 */
#ifndef HP_BATON_H
#define HP_BATON_H

#include "lib/comm.h"

void hp_baton_init(hp_driver *driver);

/* 1: taken; 0: the deadline has passed. A deadline that has passed already asks nobody. */
int hp_baton_take(hoop_comm *comm, uint64_t deadline);
int hp_baton_try(hoop_comm *comm); /* 1: it was free, and is the caller's */
void hp_baton_give(hoop_comm *comm);

/* The holder's sign of life, for the threads that watch it. */
static inline void
hp_baton_beat(hoop_comm *comm)
{
    atomic_ullong *beat = &comm->driver.beat;
    atomic_store_explicit(beat, atomic_load_explicit(beat, memory_order_relaxed) + 1, memory_order_relaxed);
}

#endif
