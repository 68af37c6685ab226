/* SPDX-License-Identifier: MIT */
/* work_pool: see work_pool.h. The two lists are guarded by the driver's mutex. */
#include "lib/work_pool.h"

#include "base/mem.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static hoop_work *
make(hp_driver *d)
{
    hoop_work *work = hp_alloc(1, sizeof(*work));
    if (!work)
        return NULL;
    pthread_mutex_lock(&d->mutex);
    work->made_before = d->made;
    d->made = work;
    pthread_mutex_unlock(&d->mutex);
    return work;
}

hoop_work *
hp_work_pool_take(hoop_comm *comm)
{
    hp_driver *d = &comm->driver;
    hoop_work *work;
    pthread_mutex_lock(&d->mutex);
    work = d->free;
    if (work)
        d->free = work->next;
    pthread_mutex_unlock(&d->mutex);
    if (!work)
        return make(d);
    memset(work, 0, offsetof(hoop_work, array));
    return work;
}

void
hp_work_pool_give(hoop_comm *comm, hoop_work *work)
{
    hp_driver *d = &comm->driver;
    pthread_mutex_lock(&d->mutex);
    work->next = d->free;
    d->free = work;
    pthread_mutex_unlock(&d->mutex);
}

void
hp_work_pool_free(hoop_comm *comm)
{
    hp_driver *d = &comm->driver;
    while (d->made) {
        hoop_work *work = d->made;
        d->made = work->made_before;
        free(work->array);
        free(work);
    }
}
