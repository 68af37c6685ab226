/* SPDX-License-Identifier: MIT */
/* baton: see baton.h. Under the driver's mutex; its condition keeps the clock that deadlines are of. */
#include "lib/baton.h"

#include "base/clock.h"

#include <errno.h>
#include <time.h>

void
hp_baton_init(hp_driver *d)
{
    pthread_condattr_t monotonic;
    pthread_mutex_init(&d->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&d->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

/* 0: the deadline has passed. */
static int
await_change(hp_driver *d, uint64_t deadline)
{
    struct timespec until = {.tv_sec = (time_t)(deadline / HP_SEC), .tv_nsec = (long)(deadline % HP_SEC)};
    if (deadline == HP_NEVER)
        return pthread_cond_wait(&d->changed, &d->mutex) == 0;
    return pthread_cond_timedwait(&d->changed, &d->mutex, &until) != ETIMEDOUT;
}

/* `yield` counts those who ask. Where one gives up, the background thread may go on, which has rested for it. */
static void
ask(hoop_comm *comm, uint64_t deadline)
{
    hp_driver *d = &comm->driver;
    atomic_fetch_add(&d->yield, 1);
    do
        hp_loop_wake(comm->loop);
    while (await_change(d, deadline) && d->held);
    if (atomic_fetch_sub(&d->yield, 1) == 1 && d->held)
        pthread_cond_broadcast(&d->changed);
}

int
hp_baton_take(hoop_comm *comm, uint64_t deadline)
{
    hp_driver *d = &comm->driver;
    int taken;
    pthread_mutex_lock(&d->mutex);
    if (d->held && hp_now() < deadline)
        ask(comm, deadline);
    taken = !d->held;
    d->held = 1;
    pthread_mutex_unlock(&d->mutex);
    return taken;
}

int
hp_baton_try(hoop_comm *comm)
{
    return hp_baton_take(comm, 0);
}

void
hp_baton_give(hoop_comm *comm)
{
    hp_driver *d = &comm->driver;
    if (atomic_load_explicit(&d->manual, memory_order_relaxed))
        hp_comm_arm(comm);
    pthread_mutex_lock(&d->mutex);
    d->held = 0;
    if (d->has_thread || atomic_load(&d->yield))
        pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->mutex);
}
