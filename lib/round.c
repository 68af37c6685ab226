/* SPDX-License-Identifier: MIT */
/* round: see round.h. */
#include "lib/round.h"

#include "base/clock.h"
#include "lib/baton.h"
#include "lib/devices.h"
#include "lib/fault.h"
#include "lib/inbox.h"
#include "lib/links.h"
#include "lib/ops.h"
#include "lib/reports.h"

enum {
    IDLE_SLEEP_MS = 1000,
    LOOK_MIN_NS = 50000, /* a caller's stream that has not come is looked for that often, */
    LOOK_MAX_NS = 500000,
    LOOK_PART = 64 /* at first; later in this part of the time it has taken */
};

/* Tells the server of a call that was refused, or that it need not mind: an operation up to `last` was started. */
static void
mind_refusal(hoop_comm *comm, uint64_t last)
{
    hp_driver *d = &comm->driver;
    hp_unstarted refusal;
    switch (hp_inbox_refusal(comm, last, &refusal)) {
    case HP_REFUSAL_OVER:
        if (d->told)
            hp_reports_started(comm);
        d->told = 0;
        break;
    case HP_REFUSAL_NEW:
        hp_client_unstarted(comm->client, &refusal);
        d->told = 1;
        break;
    default: break;
    }
}

/* The queues of the work's device are opened here, at its first use. */
static void
start(hoop_comm *comm, hoop_work *work)
{
    hoop_error error;
    if (work->device > 0 && !atomic_load(&comm->fault.failed)) {
        if (hp_devices_enroll(comm, work->device, &error) == HOOP_SUCCESS)
            hp_devices_watch(comm, work->device);
        else
            hp_fault_fail(comm, &error);
    }
    if (!comm->running)
        hp_reports_enter(comm, work->sequence);
    hp_ops_start(comm, work);
}

static void
take_inbox(hoop_comm *comm)
{
    int refused;
    uint64_t last;
    for (hoop_work *work = hp_inbox_take(comm, &last, &refused), *next; work; work = next) {
        next = work->next;
        start(comm, work);
    }
    if (refused)
        mind_refusal(comm, last);
}

/* Moves the belts. 0: the communicator has failed, no memory for a chord for instance; then no other belt may move. */
static int
move_channels(hoop_comm *comm, int *moved)
{
    for (uint32_t c = 0; c < comm->channels; c++) {
        *moved |= hp_channel_progress(comm->channel[c]);
        if (comm->channel[c]->links_wanted)
            hp_links_dial(comm, comm->channel[c]);
        if (atomic_load_explicit(&comm->fault.failed, memory_order_relaxed))
            return 0;
    }
    return 1;
}

int
hp_round_step(hoop_comm *comm)
{
    int moved = 0;
    hp_baton_beat(comm);
    if (atomic_load_explicit(&comm->driver.aborting, memory_order_acquire) == 1) {
        if (!atomic_load(&comm->fault.failed))
            hp_fault_fail(comm, &comm->fault.error);
        atomic_store(&comm->driver.aborting, 2);
    }
    if (atomic_load_explicit(&comm->driver.has_inbox, memory_order_acquire))
        take_inbox(comm);
    if (atomic_load_explicit(&comm->fault.failed, memory_order_relaxed))
        return 0;
    if (hp_listener_news(&comm->entry))
        hp_links_receive(comm);
    if (!move_channels(comm, &moved))
        return 1;
    moved |= hp_ops_finish(comm) > 0;
    hp_reports_leave(comm);
    return moved;
}

int
hp_round_idle(hoop_comm *comm, uint64_t now)
{
    int heard = 0;
    if (atomic_load(&comm->fault.failed))
        return 0;
    for (uint32_t c = 0; c < comm->channels; c++)
        heard |= hp_channel_listen(comm->channel[c]);
    hp_reports_look(comm, now);
    hp_fault_check(comm, now);
    return heard;
}

int
hp_round_stands(const hoop_comm *comm)
{
    int stands = 0;
    for (uint32_t c = 0; c < comm->channels; c++)
        stands |= hp_channel_stands(comm->channel[c]);
    return stands;
}

/*
 * A wake from the device would have to wait behind the caller's stream in a stream of ours, and the two, or that and our
 * jobs, may share a hardware queue, where nothing overtakes. So the driver looks, which costs a load.
 */
static uint64_t
look_again(hoop_comm *comm, uint64_t now)
{
    uint64_t part;
    if (!hp_round_stands(comm)) {
        comm->stands = 0;
        return HP_NEVER;
    }
    if (!comm->stands)
        comm->stands = now;
    part = (now - comm->stands) / LOOK_PART;
    return part < LOOK_MIN_NS ? LOOK_MIN_NS : part > LOOK_MAX_NS ? LOOK_MAX_NS : part;
}

uint64_t
hp_round_patience(hoop_comm *comm, uint64_t now)
{
    uint64_t patience = (comm->running ? hp_comm_heartbeat(comm) / 2 : IDLE_SLEEP_MS * HP_MS);
    uint64_t look = look_again(comm, now);
    if (look < patience)
        patience = look;
    for (uint32_t c = 0; c < comm->channels; c++)
        if (comm->channel[c]->news) /* its rounds were up: nobody wakes us for what a device has told already */
            return 0;
    if (comm->fault.grace && comm->fault.grace < now + patience)
        patience = comm->fault.grace > now ? comm->fault.grace - now : 0;
    return patience;
}

void
hp_round_arm(hoop_comm *comm)
{
    if (atomic_load(&comm->fault.failed))
        return;
    for (uint32_t c = 0; c < comm->channels; c++)
        hp_channel_arm(comm->channel[c]);
    if (comm->alarm) /* the program sleeps in a loop of its own: it must be woken for what sleep_in_loop wakes us for */
        hp_timer_set(comm->alarm,
                     comm->running || comm->fault.grace ? hp_round_patience(comm, hp_loop_now(comm->loop)) : HP_NEVER);
}
