/* SPDX-License-Identifier: MIT */
/* reports: see reports.h. */
#include "lib/reports.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "lib/account.h"
#include "lib/comm.h"
#include "lib/message_waits.h"
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
    comm->reports.turns = HP_REPORT_TURNS;
    hp_stats_stall(comm, warn_after(comm), hp_loop_now(comm->loop));
    if (comm->client)
        hp_membership_out(hp_client_membership(comm->client), comm->completed);
    if (comm->reports.heartbeats && comm->reports.heartbeats->since) {
        hp_heartbeats_make(comm->reports.heartbeats, NULL, comm->completed, 0, hp_loop_now(comm->loop));
        pass_heartbeats(comm);
    }
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
hp_reports_overdue(hoop_comm *comm, uint64_t sequence, uint64_t waited)
{
    if (comm->reports.overdue < sequence) /* of two threads the one with the earlier operation may come later */
        comm->reports.overdue = sequence;
    comm->reports.overdue_at = hp_loop_now(comm->loop);
    comm->reports.overdue_ns = waited;
    start_clock(comm, comm->reports.overdue_at);
    comm->reports.reported_at = 0; /* the next poll reports it */
}

uint64_t
hp_reports_overdue_for(const hoop_comm *comm, uint64_t now)
{
    const hp_reports *r = &comm->reports;
    int overdue = comm->running && comm->running->sequence <= r->overdue;
    return overdue ? r->overdue_ns + (now > r->overdue_at ? now - r->overdue_at : 0) : 0;
}

/* This rank's report for the server, with its times and limits. */
static hp_report
make_report(hoop_comm *comm, uint64_t now)
{
    hp_report r = hp_stats_report(comm);
    uint64_t agreed = (uint64_t)hp_config_number(&comm->config, HP_SET_op_timeout_ms) * HP_MS;
    uint64_t own = hp_comm_limit(comm);
    r.since = now - comm->reports.entered_at;
    r.limit = own == agreed ? 0 : own ? own : HP_NEVER;
    r.overdue = hp_reports_overdue_for(comm, now);
    return r;
}

/* What the server hears of an operation that it may not know of yet. */
static hp_report
first_report(hoop_comm *comm, uint64_t now)
{
    start_clock(comm, now);
    hp_name_report(comm);
    comm->reports.reported_at = now;
    comm->reports.in_op = 1;
    return make_report(comm, now);
}

void
hp_reports_started(hoop_comm *comm)
{
    if (!comm->running)
        return;
    hp_report r = first_report(comm, hp_loop_now(comm->loop));
    hp_client_started(comm->client, &r);
}

void
hp_reports_in_op(hoop_comm *comm, uint64_t now)
{
    if (!comm->running || hp_stats_is_outside(comm))
        return;
    hp_report r = first_report(comm, now);
    hp_client_in_op(comm->client, &r);
}

/* IN_OP once an operation has lasted a moment, then a report every heartbeat. Time counts from when it was entered. */
static void
report(hoop_comm *comm, uint64_t now)
{
    hp_report r;
    uint64_t interval = hp_comm_own_heartbeat(comm), wait = comm->reports.in_op ? interval : interval / 2;
    if (hp_stats_is_outside(comm)) {
        comm->reports.reported_at = now;
        if (comm->reports.in_op)
            send_out(comm);
        return;
    }
    if (!comm->running || !comm->client || now - comm->reports.reported_at < wait)
        return;
    comm->reports.reported_at = now;
    comm->reports.in_op = 1;
    r = make_report(comm, now);
    hp_client_in_op(comm->client, &r);
    /* While this rank, or another by its heartbeat, has lost the server, this rank makes a heartbeat. */
    hp_heartbeats *t = comm->reports.heartbeats;
    int alone = !hp_membership_has_server(hp_client_membership(comm->client), now),
        asked = t && t->asked && now - t->asked < JOIN_IN_MS * HP_MS;
    if (t && now - t->of[comm->rank].last_seen > HP_SILENT_HEARTBEATS * hp_comm_heartbeat(comm))
        t->since = 0; /* this rank was held up itself, and has not listened meanwhile */
    if (t && (alone || asked))
        hp_heartbeats_make(t, &r, comm->completed, alone, now);
    else if (t)
        t->since = 0;
}

/* Notes progress. */
static void
mark_progress(hoop_comm *comm, uint64_t warn, uint64_t now)
{
    hp_report r;
    char line[256], name[HP_NAME_PREFIX];
    if (hp_stats_is_outside(comm)) {
        comm->reports.moved_at = now;
        hp_recorder_wait(comm, (hp_awaited){HP_WAIT_STREAM, -1});
    }
    if (comm->running && comm->running->sequence != comm->reports.entered) {
        comm->reports.entered = comm->running->sequence;
        comm->reports.entered_at = now;
    }
    if (!comm->running || hp_stats_is_outside(comm))
        return;
    r = hp_stats_report(comm);
    hp_recorder_wait(comm, r.awaited);
    if (r.step != comm->reports.steps || r.bytes != comm->reports.bytes) {
        comm->reports.steps = r.step;
        comm->reports.bytes = r.bytes;
        comm->reports.moved_at = now;
    } else if (warn && now - comm->reports.moved_at > warn && comm->reports.logged != r.sequence) {
        /* once for each operation: as a rule the rank that this one waits for waits, too */
        comm->reports.logged = r.sequence;
        hp_log(HP_LOG_INFO, "%s%s", hp_name_prefix(comm, name),
               hp_stats_waiting(comm, (now - comm->reports.moved_at) / HP_MS, line, sizeof(line)));
    }
}

/* --- waits outside the belts --- */

/* The operation that its stream has not reached, else the message in which a thread waits, if that has lasted a moment. */
static hp_waiting
find_wait(hoop_comm *comm, uint64_t now)
{
    hp_waiting waiting = {.awaited = {HP_WAIT_NONE, -1}}, none = waiting;
    if (hp_stats_is_outside(comm)) {
        waiting.sequence = comm->running->sequence;
        waiting.since = now - comm->reports.entered_at;
        waiting.awaited.what = HP_WAIT_STREAM;
        waiting.call = comm->running->call;
    } else if (!comm->running) {
        waiting = hp_message_waits_find(comm, now);
    }
    if (!waiting.call.kind || waiting.since < hp_comm_own_heartbeat(comm) / 2)
        return none;
    /* a thread of the program that waits, and not in a split, waits for messages if there are only such */
    return waiting.sequence || atomic_load(&comm->driver.here) > 0 ? waiting : none;
}

/* The server is told that this rank waits no longer, now or, if it cannot be told now, later. */
static void
end_wait(hoop_comm *comm)
{
    const hp_waiting none = {.awaited = {HP_WAIT_NONE, -1}};
    uint8_t payload[HP_WAITING_BYTES];
    hp_waiting_put(payload, &none);
    if (!hp_membership_inform(hp_client_membership(comm->client), HP_FEATURE_WAITING, HP_WAITING, payload,
                              sizeof(payload)))
        return;
    comm->reports.waiting = none;
    comm->reports.turns = HP_REPORT_TURNS;
}

void
hp_reports_wait(hoop_comm *comm, uint64_t now)
{
    hp_reports *r = &comm->reports;
    uint8_t payload[HP_WAITING_BYTES];
    if (!comm->client)
        return;
    hp_waiting waiting = find_wait(comm, now);
    if (!waiting.call.kind) {
        if (r->waiting.call.kind)
            end_wait(comm);
        return;
    }
    /* it can wait if nothing has changed, or one message takes the place of another */
    int same = waiting.sequence == r->waiting.sequence && waiting.awaited.what == r->waiting.awaited.what &&
               waiting.awaited.rank == r->waiting.awaited.rank && hp_call_equal(&waiting.call, &r->waiting.call);
    int messages = r->waiting.call.kind && !r->waiting.sequence && !waiting.sequence;
    if ((messages || same) && now - r->waiting_at < hp_comm_own_heartbeat(comm))
        return;
    waiting.call_name = hp_name_number(comm, &waiting.call);
    hp_waiting_put(payload, &waiting);
    if (!hp_membership_inform(hp_client_membership(comm->client), HP_FEATURE_WAITING, HP_WAITING, payload,
                              sizeof(payload)))
        return;
    r->waiting = waiting;
    r->waiting_at = now;
}

void
hp_reports_leave(hoop_comm *comm)
{
    if (comm->reports.in_op && !comm->running)
        send_out(comm);
    const hp_waiting *told = &comm->reports.waiting;
    if (!told->call.kind)
        return;
    int over = told->sequence ? !hp_stats_is_outside(comm) || comm->running->sequence != told->sequence
                              : comm->running || !comm->messages.running;
    if (over)
        end_wait(comm);
}

void
hp_reports_poll(hoop_comm *comm, uint64_t now)
{
    uint64_t warn = warn_after(comm);
    hp_name_report(comm);
    start_clock(comm, now);
    mark_progress(comm, warn, now);
    report(comm, now);
    hp_vitals_poll(comm);
    if (!comm->reports.heartbeats)
        return;
    /* Takes the heartbeats of the next rank, and passes on the new ones to the previous one. */
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
    hp_stats_stall(comm, warn, now);
}
