/* SPDX-License-Identifier: MIT */
/* fault: see fault.h. */
#include "lib/fault.h"

#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "lib/base/log.h"
#include "lib/comm.h"
#include "lib/guard.h"
#include "lib/stats.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    GRACE_MS = 200,
    WITNESS_MS = 500,
    SETTLE_MS = 2000 /* how long jobs may take before streams are let go all the same */
};

hoop_error
hp_fault_told(const hoop_comm *comm, const hoop_error *cause)
{
    hoop_error other = *cause;
    char me[96];
    int lack = cause->code == HOOP_ERR_CUDA || cause->code == HOOP_ERR_NO_MEMORY || cause->code == HOOP_ERR_SYSTEM;
    if (cause->rank == comm->rank && lack) {
        other.code = HOOP_ERR_ABORTED;
        snprintf(other.text, sizeof other.text, "%s failed: %.*s", hp_comm_name(comm, comm->rank, me), 150,
                 cause->text);
    }
    return other;
}

void
hp_fault_claim(hoop_comm *comm, const hoop_error *cause)
{
    pthread_mutex_lock(&comm->driver.mutex);
    if (!atomic_load(&comm->fault.known)) {
        comm->fault.error = *cause;
        comm->fault.error.size = sizeof comm->fault.error;
        if (comm->fault.error.phase == HOOP_PHASE_NONE)
            comm->fault.error.phase = HOOP_PHASE_OPERATION;
        atomic_store(&comm->fault.known, 1); /* before a stream goes on, whose owner may then ask how it went */
    }
    pthread_mutex_unlock(&comm->driver.mutex);
}

/* Where streams share a hardware queue, jobs may stand behind the very stream: that one they are not waited for. */
static void
await_jobs(hoop_comm *comm, const hoop_work *work, uint64_t deadline)
{
    const struct timespec moment = {0, 50000};
    for (uint32_t c = 0; work->gate && c < comm->channels; c++)
        while (!hp_channel_settled(comm->channel[c], work) && hp_now() < deadline) {
            hp_guard_beat(comm);
            nanosleep(&moment, NULL);
        }
}

/*
 * Streams of callers stand until their operations end, and while one stands a driver may let nobody in, who would drain a
 * queue: so the operations let go of them one by one, each when its own jobs have ended, before the queues are drained.
 * No job stands behind such a stream, or behind whatever else its owner has put there.
 */
static void
settle(hoop_comm *comm)
{
    uint64_t deadline = hp_now() + SETTLE_MS * HP_MS;
    for (hoop_work *work = comm->running; work; work = work->next) {
        await_jobs(comm, work, deadline);
        hp_comm_let_go(comm, work);
    }
    for (uint32_t c = 0; c < comm->channels; c++)
        hp_channel_drain(comm->channel[c]);
}

void
hp_fault_own(hoop_comm *comm, const hoop_error *cause)
{
    hp_fault_claim(comm, cause);
    hoop_error other = hp_fault_told(comm, &comm->fault.error);
    if (comm->client)
        hp_client_abort(comm->client, &other);
    hp_fault_fail(comm, cause);
}

void
hp_fault_fail(hoop_comm *comm, const hoop_error *cause)
{
    hoop_error other;
    if (atomic_load(&comm->fault.failed))
        return;
    hp_fault_claim(comm, cause);
    other = hp_fault_told(comm, &comm->fault.error);
    comm->state = HP_COMM_FAILED;
    for (uint32_t c = 0; c < comm->channels; c++)
        hp_channel_stop(comm->channel[c], &other);
    atomic_store(&comm->fault.failed, 1);
    settle(comm);
    /* nothing touches user memory from here on: links no longer move, queues are drained */
    hp_log(HP_LOG_INFO, "the communicator has failed: %s", comm->fault.error.text);
    hp_comm_fail_works(comm);
}

static int
server_answers(const hoop_comm *comm)
{
    return comm->client && hp_client_status(comm->client) != HP_CLIENT_GONE;
}

void
hp_fault_report(hoop_comm *comm, const hoop_error *cause, uint64_t now)
{
    if (cause->rank == comm->rank) { /* nobody knows that better */
        hp_fault_own(comm, cause);
        return;
    }
    if (comm->fault.grace && comm->fault.suspicion.code != HOOP_ERR_PEER_LOST)
        return; /* told already */
    comm->fault.suspicion = *cause;
    comm->fault.ended = NULL;
    comm->fault.grace = now + (server_answers(comm) ? GRACE_MS * HP_MS : 1);
    if (server_answers(comm))
        hp_client_abort(comm->client, cause);
    else
        comm->fault.suspicion.flags |= HOOP_ERROR_BEST_EFFORT;
}

/* A connection ended under an operation. Who is at fault is not known yet: the cause mostly arrives within the grace.
 */
static void
suspect(hoop_comm *comm, const hp_link *link, uint64_t now)
{
    char me[96], peer[96];
    hoop_error *s = &comm->fault.suspicion;
    if (comm->fault.grace)
        return;
    *s = link->error;
    snprintf(s->text, sizeof s->text, "%s lost %s during operation %llu: %s", hp_comm_name(comm, comm->rank, me),
             hp_comm_name(comm, link->peer, peer), comm->running ? (unsigned long long)comm->running->sequence : 0ULL,
             link->state == HP_LINK_LEFT ? "it left the communicator"
             : link->error.sys_errno     ? strerror(link->error.sys_errno)
                                         : "it closed the connection");
    s->sequence = comm->running ? comm->running->sequence : 0;
    s->flags = server_answers(comm) ? 0 : HOOP_ERROR_BEST_EFFORT;
    comm->fault.grace = now + GRACE_MS * HP_MS;
    comm->fault.ended = link;
}

/* A peer whose handshake failed at the last moment, on its side only, dials again within the grace. */
static void
reconsider(hoop_comm *comm)
{
    const hp_link *link = comm->fault.ended;
    if (!link || link->state != HP_LINK_OPEN || hp_link_is_stuck(link))
        return;
    comm->fault.ended = NULL;
    comm->fault.grace = 0;
}

static void
check_link(hoop_comm *comm, const hp_link *link, uint64_t now)
{
    if (link->state == HP_LINK_ABORT)
        hp_fault_fail(comm, &link->error);
    else if (link->state == HP_LINK_FAULT)
        hp_fault_report(comm, &link->error, now);
    else if (hp_link_is_stuck(link))
        suspect(comm, link, now);
}

static void
check_device(hoop_comm *comm, const hp_channel *channel)
{
    hoop_error error;
    char me[96];
    hp_err_set(&error, HOOP_ERR_NO_MEMORY, "%s ran out of memory", hp_comm_name(comm, comm->rank, me));
    for (int i = 0; i < HP_DEVICES; i++)
        if (channel->queue[i])
            channel->queue[i]->ops->status(channel->queue[i], error.code == HOOP_ERR_CUDA ? NULL : &error);
    error.rank = error.reporter = comm->rank;
    error.sequence = comm->running ? comm->running->sequence : 0;
    hp_fault_own(comm, &error);
}

/* A kernel that dies says so only here. */
static int
devices_are_well(const hp_channel *channel)
{
    for (int i = 0; i < HP_DEVICES; i++)
        if (channel->queue[i] && channel->queue[i]->ops->status(channel->queue[i], NULL) != HOOP_SUCCESS)
            return 0;
    return 1;
}

/* Whether this rank has told and been told long enough to know who is alive. */
static int
has_listened(const hoop_comm *comm, uint64_t now)
{
    const hp_ticks *t = comm->ticks;
    return t->since && now - t->since >= HP_SILENT_BEATS * hp_comm_heartbeat(comm);
}

/* By what the ranks have told each other; where that does not tell, the neighbour who is waited for. */
static void
accuse(const hoop_comm *comm, const hp_report *r, const hp_blame *blame, uint64_t stalled, hoop_error *error)
{
    char text[256];
    if (blame->guilt)
        hp_blame_print(blame, comm->ticks->of, comm->ring->members, stalled, text, sizeof text);
    else
        hp_stats_waiting(comm, stalled / HP_MS, text, sizeof text);
    hp_err_set(error, HOOP_ERR_TIMEOUT, "%s", text);
    error->rank = blame->guilt ? blame->rank : r->waits_for;
    error->reporter = comm->rank;
    error->sequence = r->sequence;
    error->flags = HOOP_ERROR_BEST_EFFORT;
}

/* Without the server: who sees the culprit says so at the time-out; the others leave that rank a moment to tell them. */
static void
judge(hoop_comm *comm, uint64_t stalled, uint64_t limit, uint64_t now)
{
    hp_report r = hp_stats_report(comm);
    hp_blame blame = {.guilt = HP_GUILT_NONE};
    hoop_error error;
    if (has_listened(comm, now))
        blame = hp_ticks_blame(comm->ticks, r.sequence, now - HP_SILENT_BEATS * hp_comm_heartbeat(comm));
    if (!blame.guilt && stalled < limit + WITNESS_MS * HP_MS)
        return;
    accuse(comm, &r, &blame, stalled, &error);
    hp_fault_fail(comm, &error);
}

/* The server judges while it is heard; this is the end of a call that nobody else would end. */
static void
check_clock(hoop_comm *comm, uint64_t now)
{
    uint64_t limit = (uint64_t)hp_config_number(&comm->config, HP_SET_op_timeout_ms) * HP_MS, moved = comm->marked_at;
    if (!comm->running || !limit || comm->size == 1)
        return;
    if (comm->ticks->moved > moved)
        moved = comm->ticks->moved;
    if (hp_client_hears(comm->client, now))
        limit = 2 * limit + 5 * HP_SEC;
    else if (!has_listened(comm, now))
        return;
    if (now - moved >= limit)
        judge(comm, now - moved, limit, now);
}

void
hp_fault_check(hoop_comm *comm, uint64_t now)
{
    hoop_error verdict;
    if (comm->client && hp_client_verdict(comm->client, &verdict)) {
        hp_fault_fail(comm, &verdict);
        return;
    }
    for (uint32_t c = 0; c < comm->channels; c++) {
        const hp_channel *channel = comm->channel[c];
        for (int i = 0; i < channel->links; i++)
            check_link(comm, channel->link[i], now);
        if (channel->job_error || !devices_are_well(channel))
            check_device(comm, channel);
    }
    check_clock(comm, now);
    reconsider(comm);
    if (comm->fault.grace && now >= comm->fault.grace && !atomic_load(&comm->fault.failed))
        hp_fault_fail(comm, &comm->fault.suspicion);
}
