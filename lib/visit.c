/* SPDX-License-Identifier: MIT */
/* visit: see visit.h. */
#include "lib/visit.h"

#include "base/clock.h"
#include "lib/links.h"
#include "lib/progress.h"
#include "lib/registry.h"

/* 1: it rests, has connections that are made again, and stays until the visit is over. Under the registry's lock. */
static int
enter(hoop_comm *comm)
{
    hp_driver *d = &comm->driver;
    pthread_mutex_lock(&d->mutex);
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

void
hp_visit_others(const hoop_comm *mine, uint64_t *next)
{
    uint64_t now = hp_now();
    int due = *next && now >= *next;
    if (due || !*next)
        *next = now + HP_VISIT_MS * HP_MS;
    if (!due)
        return;
    hp_registry_lock();
    for (hoop_comm *comm = hp_registry_first(); comm; comm = comm->next_registered)
        if (comm != mine && enter(comm)) {
            hp_registry_unlock(); /* a turn may need it */
            hp_progress_poke(comm);
            hp_registry_lock();
            leave(comm);
        }
    hp_registry_unlock();
}
