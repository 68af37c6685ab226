/* SPDX-License-Identifier: MIT */
/* progress: see progress.h. */
#include "lib/progress.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/thread.h"
#include "lib/account.h"
#include "lib/baton.h"
#include "lib/devices.h"
#include "lib/fault.h"
#include "lib/links.h"
#include "lib/message_waits.h"
#include "lib/reports.h"
#include "lib/round.h"
#include "lib/spin.h"
#include "lib/standby.h"
#include "lib/stats.h"
#include "lib/works.h"

#include <errno.h>
#include <sched.h>

enum { STUCK_POLLS = 20, POLL_MS = 250, REPORT_MS = 100 }; /* so many polls without a heartbeat of the driver */

#define STUCK (5 * HP_SEC) /* how long a call waits for the baton where the holder may be stuck */

hoop_result
hp_progress_init(hoop_comm *comm, hoop_error *error)
{
    static _Atomic uint64_t made;
    hp_driver *d = &comm->driver;
    comm->serial = atomic_fetch_add(&made, 1) + 1;
    hp_baton_init(d);
    comm->loop = hp_loop_new();
    if (!comm->loop)
        return hp_err_set(error, errno == ENOMEM ? HOOP_ERR_NO_MEMORY : HOOP_ERR_SYSTEM,
                          "cannot make an event loop: out of memory or of descriptors (ulimit -n)");
    return HOOP_SUCCESS;
}

/* --- driving --- */

static void start_thread(hoop_comm *comm);

/*
 * hp_round_idle, and after it the control connection: while it is being made again, or has bytes to take, it has to be
 * driven, also if the program goes on with another communicator.
 */
static int
poll_round(hoop_comm *comm, uint64_t now)
{
    hp_driver *d = &comm->driver;
    int received = hp_round_idle(comm, now);
    int away = comm->client && !atomic_load(&comm->fault.failed) &&
               (hp_membership_is_away(hp_client_membership(comm->client)) || hp_client_lags(comm->client));
    if (atomic_load(&d->reconnecting) == away)
        return received;
    pthread_mutex_lock(&d->mutex);
    atomic_store(&d->reconnecting, away);
    if (away && !d->has_thread && !d->manual)
        start_thread(comm);
    hp_standby_wake(comm);
    pthread_mutex_unlock(&d->mutex);
    return received;
}

static void
sleep_in_loop(hoop_comm *comm, uint64_t deadline, uint64_t now)
{
    hp_driver *d = &comm->driver;
    uint64_t timeout = hp_round_timeout(comm, now);
    if (deadline != HP_NEVER && deadline - now < timeout)
        timeout = deadline > now ? deadline - now : 0;
    hp_round_arm(comm);
    atomic_store(&d->asleep, 1);
    /*
     * a thread that submitted work, asked for the baton or aborted before it could see `asleep` did not wake the
     * loop, but has set one of these: then the loop must not sleep. It is run all the same, because sockets may be
     * ready, and the thread that asks may ask for long
     */
    if (atomic_load(&d->has_inbox) || atomic_load(&d->yield) || atomic_load(&d->aborting) == 1)
        timeout = 0;
    hp_loop_run(comm->loop, timeout);
    atomic_store(&d->asleep, 0);
    if (timeout > 0) /* sleeps while the driver polls for a stream show nothing of the network */
        d->spins = hp_spin_slept(d->spins, d->most_spins,
                                 hp_round_awaits_stream(comm) ? HP_NEVER : hp_loop_now(comm->loop) - now);
}

/*
 * Gives the loop a turn without a sleep: connections being made, handshakes, the control connection. All sockets are
 * armed as before a sleep, because a driver that never sleeps would not receive a neighbour's ABORT otherwise.
 */
static void
turn_loop(hoop_comm *comm)
{
    hp_round_arm(comm);
    hp_loop_run(comm->loop, 0);
}

/*
 * Operations that never wait give the loop no turn, and a control connection that was reset would not be noticed
 * until another rank fails. So every 64th wait gives it one; and so do the next waits that end after a report, which
 * may be lost, or has an answer, and one at whose end a report is due.
 */
static void
poll_server(hoop_comm *comm)
{
    hp_driver *d = &comm->driver;
    if ((++d->ended & 63) != 0 && comm->reports.turns == 0 && !hp_vitals_are_due(comm) &&
        !atomic_load_explicit(&d->reconnecting, memory_order_relaxed))
        return;
    comm->reports.turns -= comm->reports.turns > 0;
    hp_loop_run(comm->loop, 0);
    hp_vitals_poll(comm);
    if (comm->client && (hp_membership_may_return(hp_client_membership(comm->client)) || hp_client_lags(comm->client)))
        poll_round(comm, hp_loop_now(comm->loop));
}

typedef int until_fn(hoop_comm *comm, void *arg);

/* Functions of the program are due, which are called without the baton, or another thread asks for it. */
static int
must_give(hoop_comm *comm)
{
    return hp_callback_due(comm) || atomic_load_explicit(&comm->driver.yield, memory_order_relaxed);
}

/*
 * The one loop that moves a communicator. It polls again while steps get on; a few bytes of a payload do not count,
 * since on a slow network they arrive at every poll, and the thread would never sleep. However soon the deadline,
 * the loop has had a turn before this returns: a program of many short waits keeps the background thread from
 * driving. It also returns when it must give the baton. 0: the deadline has passed. All times are by hp_loop_now().
 */
static int
drive(hoop_comm *comm, until_fn *until, void *arg, uint64_t deadline)
{
    hp_driver *d = &comm->driver;
    int64_t idle = 0;
    unsigned rounds = 0;
    uint64_t since = 0, waits = 0; /* nothing has moved: by the loop's time, and by hp_now() */
    uint64_t turned = 0;           /* the loop had a turn */
    for (;;) {
        int moved = hp_round_pass(comm);
        if (moved && idle > 0)
            d->spins = hp_spin_found(d->spins, d->most_spins);
        if (until(comm, arg) || must_give(comm)) {
            poll_server(comm);
            return 1;
        }
        idle = moved ? 0 : idle + 1;
        if (idle == 0 && (++rounds & 63) != 0)
            continue;
        uint64_t now = hp_loop_now(comm->loop);
        if (idle == 1) {
            since = now;
            waits = hp_loop_looked(comm->loop);
            turned = now;
            hp_vitals_poll(comm); /* while there is nothing else to do */
            if (comm->reports.asks)
                hp_vitals_ask(comm);
        } else if (idle > 1 && now - since >= HP_SPIN_COUNTED_NS) {
            hp_round_wait(comm, waits);
        }
        if (idle > 0 && now < deadline && hp_spin_again(idle, d->spins, now - since)) {
            if (now - turned >= HP_SPIN_TURN_NS) {
                hp_loop_run(comm->loop, 0);
                turned = now;
            }
            sched_yield();
            continue;
        }
        int received = poll_round(comm, now);
        if (until(comm, arg) || must_give(comm))
            return 1;
        if (now >= deadline)
            break;
        if (idle > 0 && !received)
            sleep_in_loop(comm, deadline, now);
        else
            hp_loop_run(comm->loop, 0);
        idle = 0;
    }
    turn_loop(comm);
    if (idle > 0)
        sched_yield(); /* a program that waits again and again leaves the processor to others */
    return 0;
}

void
hp_progress_enter(hoop_comm *comm)
{
    hp_driver *d = &comm->driver;
    pthread_mutex_lock(&d->mutex);
    d->waiting++;
    atomic_fetch_add(&d->here, 1);
    pthread_mutex_unlock(&d->mutex);
}

int
hp_progress_enter_alone(hoop_comm *comm)
{
    hp_driver *d = &comm->driver;
    pthread_mutex_lock(&d->mutex);
    int alone = !d->waiting;
    d->waiting += alone;
    atomic_fetch_add(&d->here, alone);
    pthread_mutex_unlock(&d->mutex);
    return alone;
}

/*
 * Works to move, a control connection to make again, or an error that was not sent to the other ranks yet. Or a thread is in
 * a split: other ranks may still await what this one has sent before, and only it can make their connection again.
 */
static int
has_to_do(const hoop_comm *comm)
{
    const hp_driver *d = &comm->driver;
    return atomic_load(&d->outstanding) > 0 || atomic_load(&d->reconnecting) || atomic_load(&d->aborting) == 1 ||
           (atomic_load(&d->departed) > 0 && !atomic_load(&comm->fault.failed));
}

void
hp_progress_leave(hoop_comm *comm)
{
    hp_driver *d = &comm->driver;
    pthread_mutex_lock(&d->mutex);
    d->waiting--;
    if (atomic_fetch_sub(&d->here, 1) == 1 && d->has_thread && has_to_do(comm))
        pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->mutex);
}

/*
 * Makes the descriptor of hoop_comm_fd readable: no socket need announce that there is more, nor that this thread has just
 * completed the last work of another one.
 */
static void
wake_program(hoop_comm *comm)
{
    if (atomic_load_explicit(&comm->driver.manual, memory_order_relaxed))
        hp_loop_wake(comm->loop);
}

/* A program that drives sleeps next on what is armed here. Works that have ended meanwhile get their functions called. */
static void
give(hoop_comm *comm)
{
    if (atomic_load_explicit(&comm->driver.manual, memory_order_relaxed))
        hp_round_arm(comm);
    hp_baton_give(comm);
    hp_callback_run(comm);
}

void
hp_progress_pin(hoop_comm *comm, int device)
{
    hoop_error error;
    if (atomic_load(&comm->gpu.pinned) & (1 << device))
        return;
    hp_baton_take(comm, HP_NEVER);
    if (hp_devices_pin(comm, device, &error) != HOOP_SUCCESS)
        hp_fault_fail(comm, &error);
    give(comm);
}

/* The thread has nothing to drive any more. */
static int
is_not_pending(hoop_comm *comm, void *arg)
{
    (void)comm;
    return hp_baton_state(arg) != HP_WAIT_PENDING;
}

int
hp_progress_until(hp_waiter *waiter, uint64_t deadline)
{
    hoop_comm *comm = waiter->comm;
    int in_time = 1;
    while (in_time && hp_baton_state(waiter) != HP_WAIT_OVER && hp_baton_await(waiter, deadline)) {
        uint64_t now = hp_now(), left = deadline > now ? deadline - now : 0;
        uint64_t until = deadline == HP_NEVER ? HP_NEVER : hp_loop_now(comm->loop) + left;
        in_time = drive(comm, is_not_pending, waiter, until);
        wake_program(comm);
        give(comm);
    }
    hp_baton_forget(waiter);
    int over = hp_baton_state(waiter) == HP_WAIT_OVER;
    if (in_time && !over)
        sched_yield(); /* another thread drives, or is stuck with the baton */
    return over;
}

int
hp_progress_wait(hoop_comm *comm, hoop_work *work, uint64_t deadline)
{
    hp_waiter waiter = {.comm = comm, .works = &work, .count = 1};
    return hp_progress_until(&waiter, deadline);
}

/* Two rounds. A thread that calls again and again leaves the processor to other threads, first to the one that drives. */
void
hp_progress_poke(hoop_comm *comm)
{
    int more = 0;
    if (hp_baton_try(comm)) {
        more = hp_round_step(comm);
        turn_loop(comm);
        more |= hp_round_step(comm);
        more |= poll_round(comm, hp_loop_now(comm->loop));
        if (more)
            wake_program(comm);
        give(comm);
    }
    if (!more && !atomic_load_explicit(&comm->driver.manual, memory_order_relaxed))
        sched_yield();
}

/*
 * 1: the driver has ended all works; 0: it is stuck. Counts polls, not time: who was stopped was not stuck. Each asks the
 * driver for the baton, who ends the works before it hands that over.
 */
static int
await_end(hoop_comm *comm)
{
    hp_driver *d = &comm->driver;
    unsigned long long beat = atomic_load(&d->heartbeat);
    for (int polls = 0; polls < STUCK_POLLS && atomic_load(&d->aborting) == 1; polls++) {
        if (hp_baton_take(comm, hp_now() + POLL_MS * HP_MS)) {
            hp_round_step(comm);
            give(comm);
        }
        if (atomic_load(&d->heartbeat) != beat)
            polls = 0;
        beat = atomic_load(&d->heartbeat);
    }
    return atomic_load(&d->aborting) != 1;
}

int
hp_progress_overdue(hoop_comm *comm, uint64_t sequence, uint64_t waited)
{
    if (!hp_baton_take(comm, hp_now() + STUCK))
        return 0;
    hp_reports_overdue(comm, sequence, waited);
    give(comm);
    return 1;
}

int
hp_progress_awaits(hoop_comm *comm, const hoop_work *work, hp_message *first)
{
    if (!hp_baton_take(comm, hp_now() + STUCK))
        return -1;
    int alone = !work->after || hp_work_is_done(atomic_load(&work->after->state));
    int messages = alone ? hp_message_waits_of(work, first) : 0;
    give(comm);
    return messages;
}

int
hp_progress_abort(hoop_comm *comm, const hoop_error *cause)
{
    hp_driver *d = &comm->driver;
    int ended;
    pthread_mutex_lock(&d->mutex);
    d->guests++;
    pthread_mutex_unlock(&d->mutex);
    hp_fault_request(comm, cause);
    ended = await_end(comm);
    pthread_mutex_lock(&d->mutex);
    d->guests--;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->mutex);
    return ended;
}

void
hp_progress_refuse(hoop_comm *comm, uint32_t split, const hoop_error *cause)
{
    if (!comm->client)
        return;
    if (!hp_baton_take(comm, hp_now() + STUCK))
        return;
    hp_membership_refuse(hp_client_membership(comm->client), split, cause);
    hp_fault_find_server(comm, HP_FIND_SERVER_MS);
    give(comm);
}

void
hp_progress_placed(hoop_comm *comm, uint32_t split)
{
    if (!comm->client || !hp_client_membership(comm->client)->comes_back || !hp_baton_take(comm, hp_now() + STUCK))
        return;
    hp_membership_placed(hp_client_membership(comm->client), split);
    give(comm);
}

/*
 * The inbox holds what has to be reported to the server now. The driver does that before it hands the baton over, or this
 * thread where no thread drives; it waits for a tenth of a second at most, since the driver may be stuck.
 */
static void
empty_inbox(hoop_comm *comm)
{
    if (!atomic_load(&comm->driver.has_inbox) || !hp_baton_take(comm, hp_now() + REPORT_MS * HP_MS))
        return;
    if (atomic_load(&comm->driver.has_inbox)) {
        hp_round_step(comm);
        hp_fault_find_server(comm, HP_FIND_SERVER_MS);
        wake_program(comm);
    }
    give(comm);
}

void
hp_progress_unstarted(hoop_comm *comm, const hp_call *call, const hoop_error *cause)
{
    hp_driver *d = &comm->driver;
    if (!comm->client || comm->size == 1)
        return;
    pthread_mutex_lock(&d->mutex);
    d->refused_call = (hp_unstarted){.sequence = d->sequence + 1, .call = *call, .cause = *cause};
    d->refused = 1;
    atomic_store(&d->has_inbox, 1);
    pthread_mutex_unlock(&d->mutex);
    empty_inbox(comm);
}

/* --- the background thread --- */

static int
thread_must_rest(hoop_comm *comm, void *arg)
{
    (void)arg;
    return atomic_load(&comm->driver.sleepers) || atomic_load(&comm->driver.yield) || !has_to_do(comm);
}

static void *
run_thread(void *arg)
{
    hoop_comm *comm = arg;
    hp_driver *d = &comm->driver;
    pthread_mutex_lock(&d->mutex);
    while (!d->stop) {
        int others = atomic_load(&d->here) || (atomic_load(&d->manual) && !d->waiting); /* drive */
        if (d->held || others || atomic_load(&d->yield) || !has_to_do(comm)) {
            pthread_cond_wait(&d->changed, &d->mutex);
            continue;
        }
        d->held = HP_BATON_BACKGROUND;
        pthread_mutex_unlock(&d->mutex);
        drive(comm, thread_must_rest, NULL, HP_NEVER);
        wake_program(comm);
        hp_baton_give(comm);
        hp_callback_run(comm);
        pthread_mutex_lock(&d->mutex);
    }
    pthread_mutex_unlock(&d->mutex);
    return NULL;
}

/* Without a thread non-blocking work still completes: in test, wait and hoop_comm_progress. */
static void
start_thread(hoop_comm *comm)
{
    comm->driver.has_thread = hp_thread_start(&comm->driver.thread, run_thread, comm);
}

void
hp_progress_depart(hoop_comm *comm)
{
    hp_driver *d = &comm->driver;
    int repairs = hp_links_are_repaired(comm, comm->local_size == comm->size);
    pthread_mutex_lock(&d->mutex);
    d->waiting++;
    atomic_fetch_add(&d->departed, repairs);
    if (!d->has_thread && (atomic_load(&d->outstanding) || repairs))
        start_thread(comm);
    else if (d->has_thread)
        pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->mutex);
}

void
hp_progress_return(hoop_comm *comm)
{
    hp_driver *d = &comm->driver;
    pthread_mutex_lock(&d->mutex);
    d->waiting--;
    atomic_fetch_sub(&d->departed, hp_links_are_repaired(comm, comm->local_size == comm->size));
    pthread_mutex_unlock(&d->mutex);
    if (!atomic_load(&d->manual))
        return;
    int taken = hp_baton_take(comm, hp_now() + STUCK); /* the background thread rests again, */
    hp_loop_wake(comm->loop);                          /* and a program that sleeps on the descriptor has to call */
    if (taken)
        give(comm);
}

void
hp_progress_stop(hoop_comm *comm)
{
    hp_driver *d = &comm->driver;
    pthread_mutex_lock(&d->mutex);
    while (d->guests || d->calling)
        pthread_cond_wait(&d->changed, &d->mutex);
    d->stop = 1;
    atomic_fetch_add(&d->yield, 1);
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->mutex);
    hp_stream_watchdog_stop(comm);
    hp_standby_stop(comm);
    if (d->has_thread) {
        hp_loop_wake(comm->loop);
        pthread_join(d->thread, NULL);
    }
    d->has_thread = 0;
    atomic_fetch_sub(&d->yield, 1);
}

void
hp_progress_submit(hoop_comm *comm, hoop_work *first, hoop_work *last, int blocking)
{
    hp_driver *d = &comm->driver;
    int corrects; /* a refused call was reported, and the server counts the seconds until this rank starts one */
    pthread_mutex_lock(&d->mutex);
    hp_recorder_call(comm, first, last);
    hp_inbox_put(d, first, last);
    corrects = d->refused && !blocking;
    if (!blocking && !d->has_thread && !d->manual)
        start_thread(comm);
    if (!blocking && d->has_thread && !d->held)
        pthread_cond_broadcast(&d->changed);
    hp_standby_wake(comm);
    pthread_mutex_unlock(&d->mutex);
    if ((!blocking && d->manual) || atomic_load(&d->asleep))
        hp_loop_wake(comm->loop);
    if (corrects)
        empty_inbox(comm);
}

/* The alarm only has to make the descriptor readable. */
static void
wake_up(void *arg)
{
    (void)arg;
}

int
hp_progress_fd(hoop_comm *comm, hoop_error *error)
{
    int fd;
    if (!hp_baton_take(comm, hp_now() + STUCK)) {
        hp_err_set(error, HOOP_ERR_BUSY,
                   "hoop_comm_fd: another thread has not come back from this communicator for 5 s");
        return -1;
    }
    pthread_mutex_lock(&comm->driver.mutex);
    comm->driver.manual = 1;
    pthread_mutex_unlock(&comm->driver.mutex);
    if (!comm->alarm)
        comm->alarm = hp_timer_new(comm->loop, wake_up, comm);
    fd = comm->alarm ? hp_loop_fd(comm->loop) : -1;
    if (fd < 0) {
        hp_err_sys(error, comm->alarm ? HOOP_ERR_SYSTEM : HOOP_ERR_NO_MEMORY, comm->alarm ? errno : ENOMEM,
                   "hoop_comm_fd: cannot make a descriptor (raise \"ulimit -n\")");
        atomic_store(&comm->driver.manual, 0); /* a program that got -1 will not drive */
    }
    wake_program(comm);
    give(comm);
    if (fd >= 0)
        hp_standby_start(comm, hp_progress_poke);
    return fd;
}

int
hp_progress_fd_close(hoop_comm *comm)
{
    hp_driver *d = &comm->driver;
    hp_standby_stop(comm); /* before the baton is taken, because that thread may want it */
    if (!hp_baton_take(comm, hp_now() + STUCK)) {
        hp_standby_start(comm, hp_progress_poke);
        return 0;
    }
    hp_timer_free(comm->alarm);
    comm->alarm = NULL;
    hp_loop_fd_close(comm->loop);
    pthread_mutex_lock(&d->mutex);
    atomic_store(&d->manual, 0);
    if (has_to_do(comm) && !d->has_thread)
        start_thread(comm);
    pthread_mutex_unlock(&d->mutex);
    give(comm);
    return 1;
}
