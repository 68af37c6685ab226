/* SPDX-License-Identifier: MIT */
/* callback: see callback.h. The queue is guarded by the driver's mutex. */
#include "lib/callback.h"

#include "lib/work_pool.h"

static _Thread_local int inside; /* functions of this thread, one in the other: of different communicators */

int
hp_callback_inside(void)
{
    return inside > 0;
}

void
hp_callback_queue(hoop_comm *comm, hoop_work *work)
{
    hp_driver *d = &comm->driver;
    pthread_mutex_lock(&d->mutex);
    work->next = NULL;
    if (d->due)
        d->due_last->next = work;
    else
        d->due = work;
    d->due_last = work;
    atomic_store(&d->has_due, !d->calling);
    pthread_mutex_unlock(&d->mutex);
}

/* After its function the work may be its owner's, or free. */
static void
call(hoop_comm *comm, hoop_work *work)
{
    inside++;
    work->fn(work->fn_arg, work->result);
    inside--;
    hp_work_pool_settle(comm, work, atomic_fetch_or(&work->state, HP_WORK_RETURNED));
}

void
hp_callback_run(hoop_comm *comm)
{
    hp_driver *d = &comm->driver;
    if (!hp_callback_due(comm))
        return;
    pthread_mutex_lock(&d->mutex);
    if (!d->calling) {
        d->calling = 1;
        atomic_store(&d->has_due, 0);
        while (d->due) {
            hoop_work *work = d->due;
            d->due = work->next;
            pthread_mutex_unlock(&d->mutex);
            call(comm, work);
            pthread_mutex_lock(&d->mutex);
        }
        d->calling = 0;
        pthread_cond_broadcast(&d->changed);
        if (d->held) /* by a thread that may wait for one of these works */
            hp_loop_wake(comm->loop);
    }
    pthread_mutex_unlock(&d->mutex);
}
