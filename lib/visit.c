/* SPDX-License-Identifier: MIT */
/* visit: see visit.h. */
#include "lib/visit.h"

#include "base/clock.h"
#include "lib/links.h"
#include "lib/progress.h"
#include "lib/registry.h"

enum { EVERY_MS = 250 };

/*
 * 1: it rests, has connections that are made again, and stays until the visit is over. Under the registry's lock. One whose
 * mutex is held does not rest: the visitor has a communicator of its own to drive, so it waits for no lock.
 */
static int
enter(hoop_comm *comm)
{
    hp_driver *d = &comm->driver;
    if (pthread_mutex_trylock(&d->mutex) != 0)
        return 0;
    int rests = !d->stop && !d->held && !atomic_load(&d->outstanding) && !atomic_load(&comm->fault.failed) &&
                hp_links_are_repaired(comm, comm->local_size == comm->size);
    d->guests += rests;
    pthread_mutex_unlock(&d->mutex);
    return rests;
}

static void
leave(hoop_comm *comm)
{
    pthread_mutex_lock(&comm->driver.mutex);
    comm->driver.guests--;
    pthread_cond_broadcast(&comm->driver.changed);
    pthread_mutex_unlock(&comm->driver.mutex);
}

/* 1: the registry's lock is held again, and the next one may follow. A communicator that has just failed took long enough. */
static int
visit(hoop_comm *comm)
{
    hp_registry_unlock(); /* a turn may need it */
    hp_progress_poke(comm);
    if (atomic_load(&comm->driver.manual))
        hp_loop_wake(comm->loop); /* what the program sleeps on may have been read empty */
    int more = !atomic_load(&comm->fault.failed) && hp_registry_try();
    leave(comm);
    return more;
}

uint64_t
hp_visit_slice(void)
{
    return hp_registry_has_several() ? EVERY_MS * HP_MS : HP_NEVER;
}

void
hp_visit_others(const hoop_comm *mine, uint64_t *next)
{
    uint64_t now = hp_now();
    int due = *next && now >= *next;
    if (due || !*next)
        *next = now + EVERY_MS * HP_MS;
    if (!due || !hp_registry_try())
        return;
    for (hoop_comm *comm = hp_registry_first(); comm; comm = comm->next_registered)
        if (comm != mine && enter(comm) && !visit(comm))
            return;
    hp_registry_unlock();
}
