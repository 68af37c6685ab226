/* SPDX-License-Identifier: MIT */
/* overdue: see overdue.h. */
#include "lib/overdue.h"

#include "base/clock.h"
#include "base/err.h"
#include "lib/fault.h"
#include "lib/reports.h"
#include "lib/stats.h"

#include <stdio.h>

enum { OVERDUE_MS = 5000 /* how long the server has to judge a wait that is overdue */ };

/* Blames by the ranks' heartbeats; if those are not enough, the neighbour that this rank waits for. */
static void
describe_timeout(const hoop_comm *comm, const hp_report *r, const hp_blame *blame, uint64_t stalled, hoop_error *error)
{
    char text[600];
    if (blame->guilt == HP_GUILT_ABSENT && comm->reports.heartbeats->of[blame->rank].completed < blame->sequence) {
        /* a rank that is silent may be unreachable, stopped, or still outside the operation */
        snprintf(text, sizeof(text), "%s has not entered %s, or is unreachable or stopped; %s",
                 hp_member_process(&comm->ring->members[blame->rank]).text,
                 hp_say_operation(blame->sequence, &blame->call).text, hp_say_waited(blame->waiting, stalled).text);
    } else if (blame->guilt)
        hp_blame_print(blame, comm->reports.heartbeats->of, comm->ring->members, stalled, text, sizeof(text));
    else
        hp_stats_waiting(comm, stalled / HP_MS, text, sizeof(text));
    hp_err_set(error, HOOP_ERR_TIMEOUT, "%s", text);
    error->rank = blame->guilt ? blame->rank : r->awaited.rank;
    error->reporter = comm->rank;
    error->sequence = r->sequence;
    error->flags = HOOP_ERROR_BEST_EFFORT;
}

/* While the server answers, it judges which rank is late. Otherwise this rank does, so that every call ends. */
static void
check_clock(hoop_comm *comm, uint64_t now)
{
    uint64_t limit = hp_comm_limit(comm);
    hp_heartbeat_clock clock = {now, comm->reports.moved_at, limit, hp_comm_heartbeat(comm)};
    hoop_error error;
    if (!comm->running || !limit || comm->size == 1)
        return;
    if (hp_membership_has_server(hp_client_membership(comm->client), now))
        clock.limit = 2 * limit + 5 * HP_SEC;
    else if (!hp_heartbeats_has_listened(comm->reports.heartbeats, clock.interval, now))
        return;
    hp_report r = hp_stats_report(comm);
    /* in operations of these kinds a rank may be done with its part, and silent, while others still wait */
    int kind = comm->running->call.kind;
    hp_blame blame = hp_heartbeats_judge(comm->reports.heartbeats, r.sequence,
                                         (hp_kind_is_rooted(kind) || hp_kind_has_counts(kind)), &clock);
    if (!blame.guilt && !hp_heartbeats_late(comm->reports.heartbeats, &clock))
        return;
    describe_timeout(comm, &r, &blame, now - hp_heartbeats_moved(comm->reports.heartbeats, &clock), &error);
    hp_fault_fail(comm, &error);
}

/* A wait that is overdue is the server's to judge, too. */
static void
check_overdue(hoop_comm *comm, uint64_t now)
{
    uint64_t waited = hp_reports_overdue_for(comm, now), interval = hp_comm_heartbeat(comm);
    hp_blame blame = {.guilt = HP_GUILT_NONE, .rank = -1};
    const hp_heartbeats *heard = comm->reports.heartbeats;
    hoop_error error;
    if (!waited)
        return;
    if (heard && now < comm->reports.overdue_at + OVERDUE_MS * HP_MS &&
        (hp_membership_has_server(hp_client_membership(comm->client), now) ||
         !hp_heartbeats_has_listened(heard, interval, now)))
        return;
    hp_report r = hp_stats_report(comm);
    if (heard)
        blame = hp_heartbeats_blame(heard, r.sequence, now - HP_SILENT_HEARTBEATS * interval);
    describe_timeout(comm, &r, &blame, waited, &error);
    hp_fault_fail(comm, &error);
}

void
hp_overdue_check(hoop_comm *comm, uint64_t now)
{
    if (atomic_load(&comm->fault.failed))
        return;
    check_clock(comm, now);
    check_overdue(comm, now);
}
