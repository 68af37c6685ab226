/* SPDX-License-Identifier: MIT */
/*
 * baton: each communicator has one; only the thread that holds it touches channels, links, client and fault. A thread
 * that wants it asks the holder to hand it over, and waits up to a deadline of its own, because the holder may be stuck
 * in the GPU's driver.
 */
#ifndef HP_BATON_H
#define HP_BATON_H

#include "lib/comm.h"

void hp_baton_init(hp_driver *driver);

/* 1: taken; 0: the deadline, by hp_now(), has passed. With one in the past the holder is not asked. */
int hp_baton_take(hoop_comm *comm, uint64_t deadline);
int hp_baton_try(hoop_comm *comm); /* 1: it was free, and is the caller's now */
void hp_baton_give(hoop_comm *comm);

/*
 * A thread that drives `driven` waits for works of comm as well (hoop_wait_any): it is woken when one of them is done.
 * NULL: no longer.
 */
void hp_baton_watch(hoop_comm *comm, hoop_comm *driven);
void hp_baton_wake_watcher(hoop_comm *comm);

/* A work of comm is done. */
static inline void
hp_baton_tell(hoop_comm *comm)
{
    if (atomic_load(&comm->driver.watched))
        hp_baton_wake_watcher(comm);
}

/* The holder's sign of life, for the threads that watch it. */
static inline void
hp_baton_heartbeat(hoop_comm *comm)
{
    atomic_ullong *beat = &comm->driver.heartbeat;
    atomic_store_explicit(beat, atomic_load_explicit(beat, memory_order_relaxed) + 1, memory_order_relaxed);
}

#endif
