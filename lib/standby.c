/* SPDX-License-Identifier: MIT */
/* standby: see standby.h. Under the driver's mutex but while it looks. */
#include "lib/standby.h"

#include "base/clock.h"
#include "lib/progress.h"

#include <signal.h>
#include <time.h>

enum { LOOK_MS = 100, RETURN_MS = 10 }; /* while a control connection is made again it looks more often */

static int
has_to_do(const hp_driver *d)
{
    return atomic_load(&d->outstanding) > 0 || atomic_load(&d->attending);
}

static void
wait_a_while(hoop_comm *comm)
{
    struct timespec until;
    uint64_t when = hp_now() + (atomic_load(&comm->driver.attending) ? RETURN_MS : LOOK_MS) * HP_MS;
    until = (struct timespec){.tv_sec = (time_t)(when / HP_SEC), .tv_nsec = (long)(when % HP_SEC)};
    pthread_cond_timedwait(&comm->standby.bell, &comm->driver.mutex, &until);
}

/* The program may have slept on what this look has taken away. */
static void
look(hoop_comm *comm)
{
    hp_progress_poke(comm);
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
        unsigned long long beat = atomic_load(&d->beat);
        m->dozes = !has_to_do(d);
        if (m->dozes) {
            pthread_cond_wait(&m->bell, &d->mutex);
            continue;
        }
        wait_a_while(comm);
        if (m->stop || (atomic_load(&d->beat) != beat && !atomic_load(&d->attending)))
            continue;
        pthread_mutex_unlock(&d->mutex);
        look(comm);
        pthread_mutex_lock(&d->mutex);
    }
    pthread_mutex_unlock(&d->mutex);
    return NULL;
}

static int
start_thread(hoop_comm *comm)
{
    pthread_condattr_t monotonic;
    sigset_t all, old;
    int runs;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&comm->standby.bell, &monotonic);
    pthread_condattr_destroy(&monotonic);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    runs = pthread_create(&comm->standby.thread, NULL, run_standby, comm) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!runs)
        pthread_cond_destroy(&comm->standby.bell);
    return runs;
}

void
hp_standby_start(hoop_comm *comm)
{
    pthread_mutex_lock(&comm->driver.mutex);
    if (!comm->standby.runs && !comm->standby.stop && comm->client)
        comm->standby.runs = start_thread(comm);
    pthread_mutex_unlock(&comm->driver.mutex);
}

void
hp_standby_ring(hoop_comm *comm)
{
    if (comm->standby.runs && comm->standby.dozes)
        pthread_cond_signal(&comm->standby.bell);
}

void
hp_standby_stop(hoop_comm *comm)
{
    hp_standby *m = &comm->standby;
    pthread_mutex_lock(&comm->driver.mutex);
    m->stop = 1;
    if (m->runs)
        pthread_cond_signal(&m->bell);
    pthread_mutex_unlock(&comm->driver.mutex);
    if (m->runs) {
        pthread_join(m->thread, NULL);
        pthread_cond_destroy(&m->bell);
    }
    m->runs = 0;
}
