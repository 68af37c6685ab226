/* SPDX-License-Identifier: MIT */
/* round: see round.h. */
#include "lib/round.h"

#include "base/clock.h"
#include "lib/account.h"
#include "lib/baton.h"
#include "lib/comm.h"
#include "lib/devices.h"
#include "lib/fault.h"
#include "lib/links.h"
#include "lib/message_waits.h"
#include "lib/message_works.h"
#include "lib/messages.h"
#include "lib/overdue.h"
#include "lib/reports.h"
#include "lib/stats.h"
#include "lib/works.h"

enum {
    IDLE_SLEEP_MS = 1000,
    POLL_MIN_NS = 50000,  /* time between two polls of a caller's stream: at first, */
    POLL_MAX_NS = 500000, /* and at most; between them the driver waits 1/POLL_PART of the time that it has waited */
    POLL_PART = 64
};

/*
 * Reports to the server a call that was refused, or, once an operation up to `last` was started, that this rank
 * continues.
 */
static void
report_refused_call(hoop_comm *comm, uint64_t last)
{
    hp_driver *d = &comm->driver;
    pthread_mutex_lock(&d->mutex);
    hp_unstarted refusal = d->refused_call;
    int is_new = d->refused == 1, over = last >= refusal.sequence;
    d->refused = over ? 0 : 2;
    pthread_mutex_unlock(&d->mutex);
    if (over && d->refusal_reported)
        hp_reports_started(comm);
    if (over || !is_new) {
        d->refusal_reported &= !over;
        return;
    }
    hp_name_report(comm);
    refusal.call_name = hp_name_number(comm, &refusal.call);
    hp_membership_unstarted(hp_client_membership(comm->client), &refusal);
    d->refusal_reported = 1;
}

/* The queues of the work's device are opened here, at its first use. */
static void
start(hoop_comm *comm, hoop_work *work)
{
    hoop_error error;
    hp_account_enter(comm, work);
    if (work->device > 0 && !atomic_load(&comm->fault.failed)) {
        if (hp_devices_pin(comm, work->device, &error) == HOOP_SUCCESS)
            hp_devices_watch(comm, work->device);
        else
            hp_fault_fail(comm, &error);
    }
    if (work->messages) {
        hp_messages_start(comm, work);
        return;
    }
    if (!comm->running)
        hp_reports_enter(comm, work->sequence);
    hp_ops_start(comm, work);
}

static int
move_messages(hoop_comm *comm)
{
    int moved = hp_messages_move(comm);
    if (comm->messages.links_wanted)
        hp_links_dial_messages(comm);
    return moved;
}

int
hp_round_step(hoop_comm *comm)
{
    int moved = 0;
    hp_baton_heartbeat(comm);
    if (atomic_load_explicit(&comm->driver.aborting, memory_order_acquire) == 1) {
        if (!atomic_load(&comm->fault.failed))
            hp_fault_fail(comm, &comm->fault.error);
        atomic_store(&comm->driver.aborting, 2);
    }
    if (atomic_load_explicit(&comm->driver.has_inbox, memory_order_acquire)) {
        int refused;
        uint64_t last;
        for (hoop_work *work = hp_inbox_take(comm, &last, &refused), *next; work; work = next) {
            next = work->next;
            start(comm, work);
        }
        if (refused)
            report_refused_call(comm, last);
    }
    if (atomic_load_explicit(&comm->fault.failed, memory_order_relaxed))
        return 0;
    if (hp_listener_has_events(&comm->entry))
        hp_links_receive(comm);
    for (uint32_t c = 0; c < comm->channels; c++) {
        comm->channel[c]->now = hp_recorder_clock(comm);
        moved |= hp_channel_progress(comm->channel[c]);
        if (comm->channel[c]->links_wanted)
            hp_links_dial(comm, comm->channel[c]);
        if (atomic_load_explicit(&comm->fault.failed, memory_order_relaxed)) /* no memory for a chord, for instance */
            return 1;
    }
    moved |= hp_ops_finish(comm) > 0;
    if (comm->messages.running)
        moved |= move_messages(comm);
    hp_reports_leave(comm);
    return moved;
}

/* Stations that steps have passed; a few bytes of a payload do not count. */
static uint64_t
passed(const hoop_comm *comm)
{
    uint64_t stations = comm->messages.passed;
    for (uint32_t c = 0; c < comm->channels; c++)
        stations += hp_channel_passed(comm->channel[c]);
    return stations;
}

int
hp_round_pass(hoop_comm *comm)
{
    uint64_t before = passed(comm);
    hp_round_step(comm);
    int moved = passed(comm) > before;
    if (moved)
        hp_counters_moved(&comm->counters);
    return moved;
}

void
hp_round_wait(hoop_comm *comm, uint64_t since)
{
    hp_counters *c = &comm->counters;
    uint64_t stations = passed(comm);
    if (stations != c->passed)
        hp_counters_moved(c);
    c->passed = stations;
    if (c->awaited.what)
        return;
    hp_awaited awaited = hp_stats_awaits(comm);
    if (awaited.what)
        hp_counters_wait(c, awaited, since);
}

int
hp_round_idle(hoop_comm *comm, uint64_t now)
{
    int received = 0;
    if (atomic_load(&comm->fault.failed))
        return 0;
    for (uint32_t c = 0; c < comm->channels; c++)
        received |= hp_channel_move_links(comm->channel[c]);
    if (comm->messages.first)
        received |= move_messages(comm);
    hp_round_wait(comm, hp_loop_looked(comm->loop));
    hp_reports_poll(comm, now);
    hp_message_waits_poll(comm, now);
    hp_reports_wait(comm, now);
    hp_recorder_wait_messages(comm);
    hp_links_repair(comm, now);
    hp_fault_check(comm, now);
    hp_overdue_check(comm, now);
    return received;
}

int
hp_round_awaits_stream(const hoop_comm *comm)
{
    int waits = comm->messages.held.first != NULL;
    for (uint32_t c = 0; c < comm->channels; c++)
        waits |= hp_channel_awaits_stream(comm->channel[c]);
    return waits;
}

uint64_t
hp_round_timeout(hoop_comm *comm, uint64_t now)
{
    int waits = comm->running || comm->messages.running;
    uint64_t timeout = waits ? hp_comm_own_heartbeat(comm) / 2 : IDLE_SLEEP_MS * HP_MS;
    /*
     * The driver polls a stream that is late, which costs a load, and is not woken: a wake-up would have to wait for
     * the caller's stream in a stream of the library, and two streams may share a hardware queue, where nothing overtakes,
     * so that the library's commands would wait behind it.
     */
    int polls = hp_round_awaits_stream(comm);
    uint64_t since = polls && comm->gpu.awaited_since ? comm->gpu.awaited_since : now, part = (now - since) / POLL_PART;
    uint64_t poll = part < POLL_MIN_NS ? POLL_MIN_NS : part > POLL_MAX_NS ? POLL_MAX_NS : part;
    comm->gpu.awaited_since = polls ? since : 0;
    if (polls && poll < timeout)
        timeout = poll;
    for (uint32_t c = 0; c < comm->channels; c++)
        if (comm->channel[c]->more_done) /* a station may have asked too early, and a device wakes no driver for it */
            return 0;
    if (comm->fault.grace && comm->fault.grace < now + timeout)
        timeout = comm->fault.grace > now ? comm->fault.grace - now : 0;
    return timeout;
}

void
hp_round_arm(hoop_comm *comm)
{
    if (atomic_load(&comm->fault.failed))
        return;
    for (uint32_t c = 0; c < comm->channels; c++)
        hp_channel_arm(comm->channel[c]);
    hp_messages_arm(comm);
    if (comm->alarm) { /* the program sleeps in a loop of its own: it must wake up when this thread would */
        int waits = comm->running || comm->messages.running || comm->fault.grace;
        hp_timer_set(comm->alarm, waits ? hp_round_timeout(comm, hp_loop_now(comm->loop)) : HP_NEVER);
    }
}
