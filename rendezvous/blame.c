/* SPDX-License-Identifier: MIT */
/*
 * blame: see blame.h. Every rank waits for at most one other, so a walk along "waits for" ends at a rank to blame, or
 * goes round a circle; then all ranks are compared. Silence is measured against the most recent report, not against
 * the clock, so that a server that was itself stopped blames no rank for it.
 */
#include "rendezvous/blame.h"

#include "base/clock.h"

#include <stdio.h>

enum { HEARTBEAT_MS = 250 };

uint64_t
hp_heartbeat(uint64_t op_timeout)
{
    uint64_t interval = HEARTBEAT_MS * HP_MS;
    return op_timeout && op_timeout / 8 < interval ? op_timeout / 8 : interval;
}

uint64_t
hp_blame_silent_before(const hp_witness *w, int n, uint64_t unreachable)
{
    uint64_t freshest = 0;
    for (int i = 0; i < n; i++)
        if (w[i].in_op && w[i].last_seen > freshest)
            freshest = w[i].last_seen;
    return freshest > unreachable ? freshest - unreachable : 0;
}

/* What a rank itself is suspected of, whatever it waits for. */
static hp_guilt
suspicion(const hp_witness *w, uint64_t operation, uint64_t silent_before)
{
    if (w->left && w->completed < operation)
        return HP_GUILT_LEFT;
    if (!w->in_op)
        return HP_GUILT_ABSENT;
    return w->last_seen < silent_before ? HP_GUILT_SILENT : HP_GUILT_NONE;
}

/* Walks from `start`. Returns 1 at a rank to blame; 0 in a circle, or at a rank that waits for none. */
static int
walk(const hp_witness *w, int n, int start, uint64_t silent_before, hp_blame *blame)
{
    int before = -1, at = start;
    for (int steps = 0; steps <= n; steps++) {
        blame->guilt = suspicion(&w[at], blame->sequence, silent_before);
        if (blame->guilt) {
            blame->rank = at;
            blame->other = before;
            return 1;
        }
        before = at;
        at = w[at].report.awaited.rank;
        if (at < 0 || at >= n)
            return 0;
    }
    return 0;
}

/* No walk found a rank: takes one that has become silent, else one that is missing, else the one furthest behind. */
static void
judge_all(const hp_witness *w, int n, uint64_t silent_before, hp_blame *blame)
{
    int quiet = -1, absent = -1, least = -1;
    for (int i = 0; i < n; i++) {
        if (!w[i].in_op) {
            if (absent < 0 && w[i].completed < blame->sequence)
                absent = i;
            continue;
        }
        if (w[i].last_seen < silent_before && (quiet < 0 || w[i].last_seen < w[quiet].last_seen))
            quiet = i;
        if (least < 0 || w[i].report.sequence < w[least].report.sequence ||
            (w[i].report.sequence == w[least].report.sequence && w[i].report.step < w[least].report.step))
            least = i;
    }
    blame->rank = quiet >= 0 ? quiet : absent >= 0 ? absent : least;
    blame->guilt = suspicion(&w[blame->rank], blame->sequence, silent_before);
    if (!blame->guilt) {
        int other = w[least].report.awaited.rank;
        int link = other >= 0 && other < n && other != least;
        blame->guilt = link ? HP_GUILT_LINK : HP_GUILT_SELF;
        blame->other = link ? other : -1;
    }
}

hp_blame
hp_blame_find(const hp_witness *w, int n, uint64_t unreachable)
{
    hp_blame blame = {.rank = -1, .other = -1};
    for (int i = 0; i < n; i++)
        if (w[i].in_op && (!blame.sequence || w[i].report.sequence < blame.sequence))
            blame.sequence = w[i].report.sequence;
    uint64_t silent_before = hp_blame_silent_before(w, n, unreachable);
    int found = 0;
    if (!blame.sequence)
        return blame;
    for (int i = 0; i < n && !found; i++)
        if (w[i].in_op && w[i].report.sequence == blame.sequence)
            found = walk(w, n, i, silent_before, &blame);
    if (!found)
        judge_all(w, n, silent_before, &blame);
    for (int i = 0; i < n; i++) {
        blame.waiting += w[i].in_op && i != blame.rank;
        if (w[i].in_op && w[i].report.sequence == blame.sequence && w[i].report.call.kind)
            blame.call = w[i].report.call;
    }
    return blame;
}

const char *
hp_blame_process(hp_process process)
{
    static const char *const text[] = {
        [HP_PROCESS_UNKNOWN] = ", or was stopped",
        [HP_PROCESS_RUNS] = ", and its process runs",
        [HP_PROCESS_STOPPED] = ": its process is stopped, by a signal or a debugger",
    };
    return text[process];
}

/* Of a rank that has not entered the operation. */
static void
print_absent(const hp_blame *blame, const hp_witness *w, const hp_member *members, const char *since, char *out,
             size_t size)
{
    const hp_member *who = &members[blame->rank];
    const hp_waiting *waiting = &w[blame->rank].waiting;
    hp_noun operation = hp_say_operation(blame->sequence, &blame->call);
    if (w[blame->rank].completed >= blame->sequence && blame->other >= 0)
        snprintf(out, size, "%s has finished %s, but %s still waits for it; %s", hp_member_name(who).text,
                 operation.text, hp_member_name(&members[blame->other]).text, since);
    else if (hp_blame_awaits_stream(&w[blame->rank]) && blame->process != HP_PROCESS_STOPPED)
        snprintf(out, size, "%s has called %s, and its program's stream has not reached it; %s",
                 hp_member_process(who).text, hp_say_operation(waiting->sequence, &waiting->call).text, since);
    else
        snprintf(out, size, "%s has not entered %s%s; %s", hp_member_process(who).text, operation.text,
                 hp_blame_process(blame->process), since);
}

void
hp_blame_print(const hp_blame *blame, const hp_witness *w, const hp_member *members, uint64_t stalled, char *out,
               size_t size)
{
    const hp_member *who = &members[blame->rank];
    hp_noun operation = hp_say_operation(blame->sequence, &blame->call), name = hp_member_name(who);
    hp_noun process = hp_member_process(who), since = hp_say_waited(blame->waiting, stalled);
    switch (blame->guilt) {
    case HP_GUILT_ABSENT: print_absent(blame, w, members, since.text, out, size); break;
    case HP_GUILT_LEFT:
        snprintf(out, size, "%s left the communicator after %s, before %s; %s", name.text,
                 hp_say_count(w[blame->rank].completed, "operation").text, operation.text, since.text);
        break;
    case HP_GUILT_SILENT:
        snprintf(out, size, "%s is %s in %s; %s", process.text,
                 blame->process == HP_PROCESS_STOPPED ? "stopped, by a signal or a debugger,"
                                                      : "stopped or unreachable",
                 operation.text, since.text);
        break;
    case HP_GUILT_LINK:
        snprintf(out, size,
                 "%s does not progress: %s waits for %s, and both are alive, so look at the network between them; %s",
                 operation.text, name.text, hp_member_name(&members[blame->other]).text, since.text);
        break;
    default:
        snprintf(out, size, "%s is alive, but does not progress in %s; %s", process.text, operation.text, since.text);
        break;
    }
}

uint64_t
hp_limit_shortest(const hp_witness *w, int n, uint64_t joined)
{
    uint64_t usual = joined ? joined : HP_NEVER, shortest = HP_NEVER;
    for (int i = 0; i < n; i++) {
        uint64_t limit = w[i].report.limit ? w[i].report.limit : usual;
        if (w[i].in_op && limit < shortest)
            shortest = limit;
    }
    return shortest;
}

int
hp_limit_overdue(const hp_witness *w, int n)
{
    for (int i = 0; i < n; i++)
        if (w[i].in_op && w[i].report.overdue)
            return i;
    return -1;
}

/* --- PINGs --- */

enum { PING_MS = 1000 };

void
hp_pings_send(hp_pings *pings, const hp_ring_view *view, uint64_t limit, uint64_t now)
{
    uint64_t after = limit / 2 < HP_ASK_AFTER ? limit / 2 : HP_ASK_AFTER;
    int absent = now - view->moved >= after && pings->absent != view->moved; /* they get one for each stall */
    int waiting = now - pings->waiting >= PING_MS * HP_MS;
    if (absent)
        pings->absent = view->moved;
    if (waiting)
        pings->waiting = now;
    for (int i = 0; i < view->size; i++) {
        const hp_witness *w = &view->witnesses[i];
        if (view->peers[i] && (w->in_op ? waiting : absent && !w->left))
            view->events->send(view->events->arg, view->peers[i], HP_PING, NULL, 0);
    }
}
