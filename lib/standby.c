/* SPDX-License-Identifier: MIT */
/* standby: see standby.h. The thread holds the driver's mutex, except while it drives a round. */
#include "lib/standby.h"

#include "base/clock.h"
#include "base/thread.h"

enum { POLL_MS = 100, RETURN_MS = 10 }; /* while a control connection is made again it polls more often */

static int
has_to_do(const hp_driver *d)
{
    return atomic_load(&d->outstanding) > 0 || atomic_load(&d->reconnecting);
}

/* The program may sleep on a descriptor that this round has read empty, so it is woken. */
static void
poll_once(hoop_comm *comm)
{
    comm->standby.poll(comm);
    hp_loop_wake(comm->loop);
}

static void *
run_standby(void *arg)
{
    hoop_comm *comm = arg;
    hp_standby *m = &comm->standby;
    hp_driver *d = &comm->driver;
    pthread_mutex_lock(&d->mutex);
    while (!m->stop) {
        unsigned long long beat = atomic_load(&d->heartbeat);
        m->idle = !has_to_do(d);
        if (m->idle) {
            hp_thread_wait(&m->wakeup, &d->mutex, HP_NEVER);
            continue;
        }
        hp_thread_wait(&m->wakeup, &d->mutex, hp_now() + (atomic_load(&d->reconnecting) ? RETURN_MS : POLL_MS) * HP_MS);
        if (m->stop || (atomic_load(&d->heartbeat) != beat && !atomic_load(&d->reconnecting)))
            continue;
        pthread_mutex_unlock(&d->mutex);
        poll_once(comm);
        pthread_mutex_lock(&d->mutex);
    }
    pthread_mutex_unlock(&d->mutex);
    return NULL;
}

void
hp_standby_start(hoop_comm *comm, void (*poll)(hoop_comm *comm))
{
    pthread_mutex_lock(&comm->driver.mutex);
    if (!comm->standby.runs && !comm->standby.stop && comm->client) {
        comm->standby.poll = poll;
        hp_thread_cond_init(&comm->standby.wakeup);
        comm->standby.runs = hp_thread_start(&comm->standby.thread, run_standby, comm);
        if (!comm->standby.runs)
            pthread_cond_destroy(&comm->standby.wakeup);
    }
    pthread_mutex_unlock(&comm->driver.mutex);
}

void
hp_standby_stop(hoop_comm *comm)
{
    hp_standby *m = &comm->standby;
    pthread_mutex_lock(&comm->driver.mutex);
    m->stop = 1;
    if (m->runs)
        pthread_cond_signal(&m->wakeup);
    pthread_mutex_unlock(&comm->driver.mutex);
    if (m->runs)
        pthread_join(m->thread, NULL);
    pthread_mutex_lock(&comm->driver.mutex); /* a thread that submits may be about to signal */
    if (m->runs)
        pthread_cond_destroy(&m->wakeup);
    m->runs = m->stop = 0; /* hoop_comm_fd may start it again */
    pthread_mutex_unlock(&comm->driver.mutex);
}
