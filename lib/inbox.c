/* SPDX-License-Identifier: MIT */
/* inbox: see inbox.h. */
#include "lib/inbox.h"

void
hp_inbox_put(hp_driver *d, hoop_work *first, hoop_work *last)
{
    uint64_t works = 0;
    for (hoop_work *work = first; work; work = work == last ? NULL : work->next, works++) {
        d->sequence += (uint64_t)work->calls;
        work->sequence = d->sequence;
    }
    last->next = NULL;
    if (d->inbox)
        d->inbox_last->next = first;
    else
        d->inbox = first;
    d->inbox_last = last;
    atomic_fetch_add(&d->outstanding, works);
    atomic_store(&d->has_inbox, 1);
}

hoop_work *
hp_inbox_take(hoop_comm *comm, uint64_t *last, int *refused)
{
    hp_driver *d = &comm->driver;
    pthread_mutex_lock(&d->mutex);
    hoop_work *first = d->inbox;
    *last = first ? d->inbox_last->sequence : 0;
    *refused = d->refused;
    d->inbox = d->inbox_last = NULL;
    atomic_store_explicit(&d->has_inbox, 0, memory_order_relaxed);
    pthread_mutex_unlock(&d->mutex);
    return first;
}

void
hp_inbox_refuse(hoop_comm *comm, const hp_call *call, const hoop_error *cause)
{
    hp_driver *d = &comm->driver;
    pthread_mutex_lock(&d->mutex);
    d->refused_call = (hp_unstarted){.sequence = d->sequence + 1, .call = *call, .cause = *cause};
    d->refused = 1;
    atomic_store(&d->has_inbox, 1);
    pthread_mutex_unlock(&d->mutex);
}

hp_inbox_refused
hp_inbox_refused_call(hoop_comm *comm, uint64_t last, hp_unstarted *refusal)
{
    hp_driver *d = &comm->driver;
    pthread_mutex_lock(&d->mutex);
    *refusal = d->refused_call;
    int new = d->refused == 1, over = last >= refusal->sequence;
    d->refused = over ? 0 : 2;
    pthread_mutex_unlock(&d->mutex);
    return over ? HP_INBOX_REFUSED_OVER : new ? HP_INBOX_REFUSED_NEW : HP_INBOX_REFUSED_KNOWN;
}

uint64_t
hp_inbox_started(hoop_comm *comm)
{
    pthread_mutex_lock(&comm->driver.mutex);
    uint64_t started = comm->driver.sequence;
    pthread_mutex_unlock(&comm->driver.mutex);
    return started;
}
