/* SPDX-License-Identifier: MIT */
/*
 * baton: each communicator has one; only the thread that holds it touches channels, links, client and fault. Of the
 * threads that wait, one holds it and drives; the others sleep, each until what it waits for is done, its deadline has
 * passed, or the baton is free and it is the one that is woken to drive. A thread that wants the baton for something
 * else asks the holder to hand it over, and waits up to a deadline of its own, because the holder may be stuck in the
 * GPU's driver.
 */
#ifndef HP_BATON_H
#define HP_BATON_H

#include "lib/comm.h"

/* Who has the baton. */
enum { HP_BATON_FREE, HP_BATON_HELD, HP_BATON_BACKGROUND };

/* What a thread waits for. */
typedef enum hp_wait_state {
    HP_WAIT_PENDING, /* driving brings its end nearer */
    HP_WAIT_CALLED,  /* the operation has ended, and its function has to return, on whatever thread: nothing to drive */
    HP_WAIT_OVER
} hp_wait_state;

/* A thread that waits; its own, on its stack. */
typedef struct hp_waiter {
    hoop_comm *comm;   /* the one that it drives; it may have works of others as well */
    hoop_work **works; /* one of them must be done, NULL ones aside; */
    size_t count;      /* 0: all works of comm */
    int several;       /* its works are of several communicators; that it drives one of them does not show their end */
    int known;         /* to its works */
    /* while it sleeps; the mutex is taken behind those of drivers, of any communicator */
    pthread_mutex_t mutex;
    pthread_cond_t woken;
    atomic_int wake;
    struct hp_waiter *next; /* of the sleepers of comm, in the order in which they came */
} hp_waiter;

static inline hp_wait_state
hp_baton_state(const hp_waiter *w)
{
    hp_wait_state state = HP_WAIT_CALLED;
    if (w->count == 0)
        return atomic_load(&w->comm->driver.outstanding) ? HP_WAIT_PENDING : HP_WAIT_OVER;
    for (size_t i = 0; i < w->count; i++) {
        int work = w->works[i] ? atomic_load(&w->works[i]->state) : HP_WORK_ENDED | HP_WORK_CALLS;
        if (hp_work_is_done(work))
            return HP_WAIT_OVER;
        if (!(work & HP_WORK_ENDED))
            state = HP_WAIT_PENDING;
    }
    return state;
}

void hp_baton_init(hp_driver *driver);

/* 1: taken; 0: the deadline, by hp_now(), has passed. With one in the past the holder is not asked. */
int hp_baton_take(hoop_comm *comm, uint64_t deadline);
int hp_baton_try(hoop_comm *comm); /* 1: it was free, and is the caller's now */

/* The baton is free, and one thread is woken that wants it. */
void hp_baton_give(hoop_comm *comm);

/* 1: the thread has the baton, to drive; 0: its wait is over, or the deadline has passed. Sleeps until then. */
int hp_baton_await(hp_waiter *waiter, uint64_t deadline);

/*
 * From now on the thread is woken when one of its works is done, also while it drives and that is a work of another
 * communicator; and until it forgets them.
 */
void hp_baton_watch(hp_waiter *waiter);
void hp_baton_forget(hp_waiter *waiter);

/* The work of comm is done: wakes who waits for it. */
void hp_baton_tell(hoop_comm *comm, const hoop_work *work);

/* The holder's sign of life, for the threads that watch it. */
static inline void
hp_baton_heartbeat(hoop_comm *comm)
{
    atomic_ullong *beat = &comm->driver.heartbeat;
    atomic_store_explicit(beat, atomic_load_explicit(beat, memory_order_relaxed) + 1, memory_order_relaxed);
}

#endif
