/* SPDX-License-Identifier: MIT */
/* baton: see baton.h. */
#include "lib/baton.h"

#include "base/clock.h"
#include "base/thread.h"

void
hp_baton_init(hp_driver *d)
{
    pthread_mutex_init(&d->mutex, NULL);
    hp_thread_cond_init(&d->changed);
}

/* `yield` counts the threads that ask. The background thread rests while one does; after the last has given up it
 * may go on. */
static void
ask(hoop_comm *comm, uint64_t deadline)
{
    hp_driver *d = &comm->driver;
    atomic_fetch_add(&d->yield, 1);
    do
        hp_loop_wake(comm->loop);
    while (hp_thread_wait(&d->changed, &d->mutex, deadline) && d->held);
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
    pthread_mutex_lock(&d->mutex);
    d->held = 0;
    if (d->has_thread || atomic_load(&d->yield))
        pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->mutex);
}

void
hp_baton_watch(hoop_comm *comm, hoop_comm *driven)
{
    hp_driver *d = &comm->driver;
    pthread_mutex_lock(&d->mutex);
    d->watcher = driven;
    atomic_store(&d->watched, driven != NULL);
    pthread_mutex_unlock(&d->mutex);
}

void
hp_baton_wake_watcher(hoop_comm *comm)
{
    hp_driver *d = &comm->driver;
    pthread_mutex_lock(&d->mutex);
    if (d->watcher)
        hp_loop_wake(d->watcher->loop);
    pthread_mutex_unlock(&d->mutex);
}
