/* SPDX-License-Identifier: MIT */
/* reports: see reports.h. */
#include "lib/reports.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "lib/stats.h"

enum { JOIN_IN_MS = 2000 }; /* how long a rank sends heartbeats after the last one of a rank that has lost the server */

/* Passes new heartbeats to the previous rank. Those that its link does not take now are sent first the next time. */
static void
pass_heartbeats(hoop_comm *comm)
{
    hp_link *previous = comm->channel[0]->in[1];
    uint8_t bytes[HP_HEARTBEATS_BYTES];
    for (size_t n; (n = hp_heartbeats_put(comm->reports.heartbeats, previous->peer, bytes)) > 0 &&
                   hp_link_send_heartbeats(previous, bytes, n);)
        hp_heartbeats_taken(comm->reports.heartbeats);
}

static uint64_t
warn_after(const hoop_comm *comm)
{
    return (uint64_t)hp_config_number(&comm->config, HP_SET_warn_after_ms) * HP_MS;
}

static void
send_out(hoop_comm *comm)
{
    comm->reports.in_op = 0;
    comm->reports.out = 1;
    hp_stats_stall(comm, warn_after(comm), hp_loop_now(comm->loop));
    if (comm->client)
        hp_client_out(comm->client, comm->completed);
    if (comm->reports.heartbeats && comm->reports.heartbeats->since) {
        hp_heartbeats_make(comm->reports.heartbeats, NULL, comm->completed, 0, hp_loop_now(comm->loop));
        pass_heartbeats(comm);
    }
}

/* While this rank, or another by its heartbeat, has lost the server, this rank makes a heartbeat. */
static void
send_heartbeat(hoop_comm *comm, const hp_report *r, uint64_t now)
{
    hp_heartbeats *t = comm->reports.heartbeats;
    int alone = !hp_client_has_server(comm->client, now), asked = t && t->asked && now - t->asked < JOIN_IN_MS * HP_MS;
    if (t && now - t->of[comm->rank].last_seen > HP_SILENT_HEARTBEATS * hp_comm_heartbeat(comm))
        t->since = 0; /* this rank was held up itself, and has not listened meanwhile */
    if (t && (alone || asked))
        hp_heartbeats_make(t, r, comm->completed, alone, now);
    else if (t)
        t->since = 0;
}

/* Takes the heartbeats of the next rank, and passes on the new ones to the previous one. */
static void
exchange_heartbeats(hoop_comm *comm, uint64_t now)
{
    hp_link *next = comm->channel[0]->out[1];
    if (next->heartbeats_n &&
        !hp_heartbeats_receive(comm->reports.heartbeats, next->heartbeats, next->heartbeats_n, now)) {
        hp_err_set(&next->error, HOOP_ERR_PROTOCOL, "rank %d sent rank %d a malformed heartbeat", next->peer,
                   comm->rank);
        next->error.rank = next->peer;
        next->error.reporter = comm->rank;
        next->state = HP_LINK_FAULT;
    }
    next->heartbeats_n = 0;
    pass_heartbeats(comm);
}

/* Time counts from the first poll of an operation that was entered out of none: a short one need not read the clock. */
static void
start_clock(hoop_comm *comm, uint64_t now)
{
    if (comm->reports.entering)
        comm->reports.moved_at = comm->reports.reported_at = comm->reports.entered_at = now;
    comm->reports.entering = 0;
}

void
hp_reports_started(hoop_comm *comm)
{
    uint64_t now = hp_loop_now(comm->loop);
    if (!comm->running)
        return;
    start_clock(comm, now);
    hp_report r = hp_stats_report(comm);
    r.since = now - comm->reports.entered_at;
    comm->reports.reported_at = now;
    comm->reports.in_op = 1;
    hp_client_started(comm->client, &r);
}

/* 1: the oldest operation waits for the caller's stream, so this rank has not entered it. */
static int
is_outside(const hoop_comm *comm)
{
    return comm->running && comm->running->mark && !comm->running->reached;
}

/* IN_OP once an operation has lasted a moment, then a report every heartbeat. Time counts from when it was entered. */
static void
report(hoop_comm *comm, uint64_t now)
{
    hp_report r;
    uint64_t wait = comm->reports.in_op ? hp_comm_heartbeat(comm) : hp_comm_heartbeat(comm) / 2;
    if (is_outside(comm)) {
        comm->reports.reported_at = now;
        if (comm->reports.in_op)
            send_out(comm);
        return;
    }
    if (!comm->running || !comm->client || now - comm->reports.reported_at < wait)
        return;
    comm->reports.reported_at = now;
    comm->reports.in_op = 1;
    r = hp_stats_report(comm);
    r.since = now - comm->reports.entered_at;
    hp_client_in_op(comm->client, &r);
    send_heartbeat(comm, &r, now);
}

/* Logs once for each operation which rank this one waits for; as a rule that one waits, too. */
static void
log_wait(hoop_comm *comm, uint64_t sequence, uint64_t warn, uint64_t now)
{
    char line[256];
    if (!warn || now - comm->reports.moved_at <= warn || comm->reports.logged == sequence)
        return;
    comm->reports.logged = sequence;
    hp_log(HP_LOG_INFO, "%s", hp_stats_waiting(comm, (now - comm->reports.moved_at) / HP_MS, line, sizeof(line)));
}

/* Notes progress. */
static void
mark_progress(hoop_comm *comm, uint64_t warn, uint64_t now)
{
    hp_report r;
    if (is_outside(comm))
        comm->reports.moved_at = now;
    if (!comm->running || is_outside(comm))
        return;
    r = hp_stats_report(comm);
    if (r.sequence != comm->reports.entered) {
        comm->reports.entered = r.sequence;
        comm->reports.entered_at = now;
    }
    if (r.step != comm->reports.steps || r.bytes != comm->reports.bytes) {
        comm->reports.steps = r.step;
        comm->reports.bytes = r.bytes;
        comm->reports.moved_at = now;
    } else {
        log_wait(comm, r.sequence, warn, now);
    }
}

void
hp_reports_leave(hoop_comm *comm)
{
    if (comm->reports.in_op && !comm->running)
        send_out(comm);
}

void
hp_reports_poll(hoop_comm *comm, uint64_t now)
{
    uint64_t warn = warn_after(comm);
    start_clock(comm, now);
    mark_progress(comm, warn, now);
    report(comm, now);
    if (!comm->reports.heartbeats)
        return;
    exchange_heartbeats(comm, now);
    hp_stats_stall(comm, warn, now);
}
