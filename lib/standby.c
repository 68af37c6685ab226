/* SPDX-License-Identifier: MIT */
/* standby: see standby.h. Both threads hold the driver's mutex, except while they act. */
#include "lib/standby.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/thread.h"
#include "lib/comm.h"
#include "lib/fault.h"

/* --- where the program drives --- */

enum { DRIVE_MS = 100, RETURN_MS = 10 }; /* while a control connection is made again it polls more often */

static void *
run_standby(void *arg)
{
    hoop_comm *comm = arg;
    hp_standby *m = &comm->standby;
    hp_driver *d = &comm->driver;
    pthread_mutex_lock(&d->mutex);
    while (!m->stop) {
        unsigned long long beat = atomic_load(&d->heartbeat);
        m->idle = !(atomic_load(&d->outstanding) > 0 || atomic_load(&d->reconnecting));
        if (m->idle) {
            hp_thread_wait(&m->wakeup, &d->mutex, HP_NEVER);
            continue;
        }
        hp_thread_wait(&m->wakeup, &d->mutex,
                       hp_now() + (atomic_load(&d->reconnecting) ? RETURN_MS : DRIVE_MS) * HP_MS);
        if (m->stop || (atomic_load(&d->heartbeat) != beat && !atomic_load(&d->reconnecting)))
            continue;
        pthread_mutex_unlock(&d->mutex);
        /* The program may sleep on a descriptor that this round has read empty, so it is woken. */
        comm->standby.poll(comm);
        hp_loop_wake(comm->loop);
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

/* --- where a call into the GPU's driver does not return --- */

enum { POLL_MS = 250, GRACE_POLLS = 2, LEAST_POLLS = 8 };

static void
give_up(hoop_comm *comm)
{
    hoop_error error;
    char me[96];
    hp_err_set(&error, HOOP_ERR_TIMEOUT,
               "the CUDA driver has not let %s return from a call for %u ms while a stream waits for an operation: "
               "too many launches may be queued behind the stream",
               hp_comm_name(comm, comm->rank, me), (unsigned)comm->watchdog.polls * POLL_MS);
    error.rank = error.reporter = comm->rank;
    hp_fault_request(comm, &error);
}

/*
 * A stream is blocked, so the device is chosen. The driver's thread may be in the middle of a command: see
 * hp_device_ops.release.
 */
static void
release(hoop_comm *comm)
{
    hp_device *device = comm->device[1];
    char name[HP_NAME_PREFIX];
    comm->watchdog.released = 1;
    hp_log(HP_LOG_WARN,
           "%sblocked streams are released while a call into the CUDA driver has not returned: arrays may still be "
           "written",
           hp_name_prefix(comm, name));
    device->ops->release(device);
}

/*
 * Under the driver's mutex. 1 if the driver has no heartbeat while a stream is blocked. A thread that has entered
 * a call keeps the background thread from driving, and may be stuck before it drives itself: so works that are
 * outstanding count as driven, except where the program drives from a loop of its own, whenever it likes.
 */
static int
is_stuck(hoop_comm *comm)
{
    hp_stream_watchdog *g = &comm->watchdog;
    hp_driver *d = &comm->driver;
    unsigned long long beat = atomic_load(&d->heartbeat);
    int drives = d->held || (atomic_load(&d->outstanding) > 0 && !atomic_load(&d->manual));
    int same = drives && beat == g->heartbeat && atomic_load(&comm->gpu.blocked) > 0;
    g->heartbeat = beat;
    g->polls = same ? g->polls + 1 : 0;
    return g->polls > 0;
}

static void
poll(hoop_comm *comm)
{
    /* the limit in polls, not in time, because a process that was stopped was not stuck meanwhile; 0: there is none */
    uint64_t limit = hp_comm_limit(comm), most = limit / (POLL_MS * HP_MS), polls = comm->watchdog.polls;
    if (limit && most < LEAST_POLLS)
        most = LEAST_POLLS;
    if (!atomic_load(&comm->fault.known) && most > 0 && polls >= most)
        give_up(comm);
    if (atomic_load(&comm->fault.known) && polls >= GRACE_POLLS && !comm->watchdog.released)
        release(comm);
}

static void *
run_watchdog(void *arg)
{
    hoop_comm *comm = arg;
    hp_stream_watchdog *g = &comm->watchdog;
    pthread_mutex_lock(&comm->driver.mutex);
    while (!g->stop) {
        hp_thread_wait(&g->wakeup, &comm->driver.mutex, hp_now() + POLL_MS * HP_MS);
        if (g->stop || !is_stuck(comm))
            continue;
        pthread_mutex_unlock(&comm->driver.mutex);
        poll(comm);
        pthread_mutex_lock(&comm->driver.mutex);
    }
    pthread_mutex_unlock(&comm->driver.mutex);
    return NULL;
}

void
hp_stream_watchdog_start(hoop_comm *comm)
{
    pthread_mutex_lock(&comm->driver.mutex);
    if (!comm->watchdog.runs && !comm->watchdog.stop) {
        hp_thread_cond_init(&comm->watchdog.wakeup);
        comm->watchdog.runs = hp_thread_start(&comm->watchdog.thread, run_watchdog, comm);
        if (!comm->watchdog.runs)
            pthread_cond_destroy(&comm->watchdog.wakeup);
    }
    pthread_mutex_unlock(&comm->driver.mutex);
}

void
hp_stream_watchdog_stop(hoop_comm *comm)
{
    pthread_mutex_lock(&comm->driver.mutex);
    comm->watchdog.stop = 1;
    if (comm->watchdog.runs)
        pthread_cond_signal(&comm->watchdog.wakeup);
    pthread_mutex_unlock(&comm->driver.mutex);
    if (comm->watchdog.runs) {
        pthread_join(comm->watchdog.thread, NULL);
        pthread_cond_destroy(&comm->watchdog.wakeup);
    }
}
