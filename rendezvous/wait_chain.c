/* SPDX-License-Identifier: MIT */
/*
 * wait_chain: see wait_chain.h. Processes are the same if host and pid are. A ring is followed only where it has stood
 * still for some reports: a rank that works in another ring is late by itself.
 */
#include "rendezvous/wait_chain.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "rendezvous/hold_up.h"
#include "rendezvous/limit.h"

#include <stdio.h>
#include <stdlib.h>

/* How a walk sees the rings: one that has just failed still counts. */
typedef struct outlook {
    const hp_roster *rosters, *failed;
    uint64_t heard; /* the most recent report of any rank in an operation */
} outlook;

static uint64_t
last_report(const hp_roster *r)
{
    uint64_t heard = 0;
    for (int i = 0; i < r->ring.size; i++)
        if (r->witnesses[i].in_op && r->witnesses[i].last_seen > heard)
            heard = r->witnesses[i].last_seen;
    return heard;
}

static int
is_up(const outlook *v, const hp_roster *r)
{
    return r->state == HP_ROSTER_RUNNING || r == v->failed;
}

static outlook
look(const hp_roster *rosters, const hp_roster *failed)
{
    outlook v = {.rosters = rosters, .failed = failed};
    for (const hp_roster *r = rosters; r; r = r->next) {
        uint64_t heard = is_up(&v, r) ? last_report(r) : 0;
        v.heard = heard > v.heard ? heard : v.heard;
    }
    return v;
}

static uint64_t
silence(const hp_roster *r)
{
    return HP_SILENT_HEARTBEATS * r->heartbeat;
}

static hp_blame
blame_of(const hp_roster *r)
{
    return hp_blame_find(r->witnesses, r->ring.size, silence(r));
}

/* The rank of this process in the ring; -1: none. */
static int
rank_of(const hp_roster *r, const hp_member *who)
{
    for (int i = 0; i < r->ring.size; i++)
        if (r->ring.members[i].pid == who->pid && r->ring.members[i].host_id == who->host_id)
            return i;
    return -1;
}

/* Whether the process waits in an operation of this ring. One that is silent may be stopped. */
static int
waits_in(const outlook *v, const hp_roster *r, const hp_member *who)
{
    int rank = is_up(v, r) && r->in_op_n ? rank_of(r, who) : -1;
    return rank >= 0 && r->witnesses[rank].in_op && r->witnesses[rank].last_seen + silence(r) >= v->heard &&
           last_report(r) >= r->moved + silence(r);
}

/* The ring in which the rank awaited in `r` waits; of several, the one that has stood still for longest. NULL: none. */
static const hp_roster *
follow(const outlook *v, const hp_roster *r, const hp_blame *blame)
{
    const hp_roster *found = NULL;
    if (blame->guilt != HP_GUILT_ABSENT || r->witnesses[blame->rank].completed >= blame->sequence)
        return NULL;
    const hp_member *who = &r->ring.members[blame->rank];
    if (r->events->process(r->events->arg, who) == HP_PROCESS_STOPPED)
        return NULL;
    for (const hp_roster *q = v->rosters; q; q = q->next)
        if (q != r && waits_in(v, q, who) && (!found || q->moved < found->moved))
            found = q;
    return found;
}

/* A job's list begins with its newest ring. */
static int
is_older(const outlook *v, const hp_roster *a, const hp_roster *b)
{
    const hp_roster *r = v->rosters;
    while (r != a && r != b)
        r = r->next;
    return r == b && a != b;
}

/* Counts the rings of the circle in which the chain is, and goes to the oldest one. */
static void
go_round(const outlook *v, hp_wait_chain *c)
{
    const hp_roster *start = c->last, *at = start;
    do {
        hp_blame blame = blame_of(at);
        if (is_older(v, at, c->last))
            c->last = at;
        at = follow(v, at, &blame);
        c->circle++;
    } while (at && at != start);
    c->blame = blame_of(c->last);
}

/* By Brent: `mark` waits for the walk at ever longer distances, so a circle is found without a list of the rings seen. */
static hp_wait_chain
find(const outlook *v, const hp_roster *from)
{
    hp_wait_chain c = {.from = from, .last = from, .first = blame_of(from)};
    const hp_roster *mark = from, *next;
    int distance = 0, most = 1;
    c.blame = c.first;
    while ((next = follow(v, c.last, &c.blame))) {
        c.next = c.next ? c.next : next;
        c.last = next;
        c.blame = blame_of(next);
        c.hops++;
        if (next == mark) {
            go_round(v, &c);
            break;
        }
        if (++distance == most) {
            mark = next;
            distance = 0;
            most *= 2;
        }
    }
    return c;
}

hp_wait_chain
hp_wait_chain_find(const hp_roster *rosters, const hp_roster *from)
{
    outlook v = look(rosters, NULL);
    return find(&v, from);
}

int
hp_wait_chain_guilty(const hp_wait_chain *c)
{
    if (!c->hops || c->circle)
        return c->first.rank;
    return c->blame.rank < 0 ? -1 : rank_of(c->from, &c->last->ring.members[c->blame.rank]);
}

const hp_roster *
hp_wait_chain_elsewhere(const hp_roster *rosters, const hp_roster *ring, int rank, uint64_t sequence)
{
    outlook v = look(rosters, NULL);
    hp_blame absent = {.guilt = HP_GUILT_ABSENT, .rank = rank, .sequence = sequence};
    return follow(&v, ring, &absent);
}

/* --- sentences --- */

const char *
hp_wait_chain_name(const hp_roster *r, char out[HP_RING_TEXT])
{
    const char *split = hp_title_split(r->label);
    if (*r->name)
        snprintf(out, HP_RING_TEXT, "\"%s\"", r->name);
    else
        snprintf(out, HP_RING_TEXT, "%s", split ? split : "the whole job");
    return out;
}

/* Ranks are named by their numbers in the oldest ring. */
static void
print_circle(const outlook *v, const hp_wait_chain *c, uint64_t stalled, char *out, size_t size)
{
    char mine[HP_OPERATION_TEXT], theirs[HP_OPERATION_TEXT], one[HP_RING_TEXT], other[HP_RING_TEXT], more[48] = "";
    const hp_roster *second = follow(v, c->last, &c->blame), *before = second;
    hp_blame next = blame_of(second), back = next;
    for (const hp_roster *at; (at = follow(v, before, &back)) && at != c->last;) {
        before = at;
        back = blame_of(at);
    }
    const hp_member *late = &c->last->ring.members[c->blame.rank];
    const hp_member *waits = &c->last->ring.members[rank_of(c->last, &before->ring.members[back.rank])];
    if (c->circle > 2)
        snprintf(more, sizeof(more), ", in a circle of %d communicators", c->circle);
    snprintf(
        out, size,
        "rank %d (%.24s, pid %u) waits in %s of %s, and rank %d (%.24s, pid %u) in %s of %s%s: call them in the same "
        "order; waited %.1f s",
        late->rank, late->host, late->pid, hp_blame_operation(next.sequence, &next.call, theirs),
        hp_wait_chain_name(second, one), waits->rank, waits->host, waits->pid,
        hp_blame_operation(c->blame.sequence, &c->blame.call, mine), hp_wait_chain_name(c->last, other), more,
        (double)stalled / 1e9);
}

/* What is said of the rank at the end. */
static const char *
deed(const hp_wait_chain *c, uint64_t stalled)
{
    static const char *const absent[] = {
        [HP_PROCESS_UNKNOWN] = "has not entered it, or was stopped",
        [HP_PROCESS_RUNS] = "has not entered it, and its process runs",
        [HP_PROCESS_STOPPED] = "has not entered it: its process is stopped",
    };
    hp_process process = hp_hold_up_process(c->last->events, &c->last->ring.members[c->blame.rank], stalled);
    if (c->blame.guilt == HP_GUILT_ABSENT)
        return absent[process];
    if (c->blame.guilt == HP_GUILT_LEFT)
        return "left that communicator before it";
    return process == HP_PROCESS_STOPPED ? "is stopped, by a signal or a debugger" : "is stopped or unreachable";
}

/* Whether one rank can be named at the end, beside the one that waits for it. */
static int
has_end(const hp_wait_chain *c, const hp_member *waits)
{
    const hp_witness *w = &c->last->witnesses[c->blame.rank];
    if (c->blame.rank == rank_of(c->last, waits))
        return 0;
    return c->blame.guilt == HP_GUILT_LEFT || c->blame.guilt == HP_GUILT_SILENT ||
           (c->blame.guilt == HP_GUILT_ABSENT && w->completed < c->blame.sequence);
}

/* Ranks have their numbers in the first ring; one that is not in it has that of the last one, as "its rank". */
static void
print_end(const hp_wait_chain *c, uint64_t stalled, char *out, size_t size)
{
    char operation[HP_OPERATION_TEXT], text[200], ring[HP_RING_TEXT], over[40] = "";
    const hp_member *waits = &c->from->ring.members[c->first.rank], *end = &c->last->ring.members[c->blame.rank];
    int guilty = hp_wait_chain_guilty(c);
    hp_wait_chain_name(c->last, ring);
    if (c->hops > 1)
        snprintf(over, sizeof(over), ", over %d communicators,", c->hops);
    if (!has_end(c, waits)) {
        hp_blame_print(&c->blame, c->last->witnesses, c->last->ring.members, stalled, text, sizeof(text));
        snprintf(out, size, "rank %d (%.24s, pid %u) waits%s in %s, where %s", waits->rank, waits->host, waits->pid,
                 over, ring, text);
        return;
    }
    snprintf(out, size,
             "rank %d (%.24s, pid %u) waits%s in %s of %s for %srank %d (%.24s, pid %u), which %s; %d rank%s waited "
             "%.1f s in operation %llu",
             waits->rank, waits->host, waits->pid, over,
             hp_blame_operation(c->blame.sequence, &c->blame.call, operation), ring, guilty < 0 ? "its " : "",
             guilty < 0 ? c->blame.rank : guilty, end->host, end->pid, deed(c, stalled), c->first.waiting,
             c->first.waiting == 1 ? " has" : "s have", (double)stalled / 1e9, (unsigned long long)c->first.sequence);
}

static void
print(const outlook *v, const hp_wait_chain *c, uint64_t stalled, char *out, size_t size)
{
    if (c->circle)
        print_circle(v, c, stalled, out, size);
    else
        print_end(c, stalled, out, size);
}

int
hp_wait_chain_print(const hp_roster *rosters, uint64_t comm, uint64_t stalled, int *guilty, char *out, size_t size)
{
    const hp_roster *r = rosters;
    while (r && r->ring.comm != comm)
        r = r->next;
    if (!r)
        return 0;
    outlook v = look(rosters, NULL);
    hp_wait_chain c = find(&v, r);
    if (!c.hops)
        return 0;
    *guilty = hp_wait_chain_guilty(&c);
    print(&v, &c, stalled, out, size);
    return 1;
}

/* --- time-outs --- */

static int
is_due(const hp_roster *r, uint64_t now)
{
    uint64_t limit = hp_limit_shortest(r->witnesses, r->ring.size, r->op_timeout);
    return limit != HP_NEVER && now - r->moved + 2 * r->heartbeat >= limit;
}

/* All rings of a circle have the sentence of the one that was first. */
static void
fail_with(const outlook *v, hp_roster *r, const hp_wait_chain *c, uint64_t now)
{
    hoop_error error = v->failed->cause;
    if (!c->circle) {
        char text[sizeof(error.text)];
        print(v, c, now - r->moved, text, sizeof(text));
        hp_err_set(&error, HOOP_ERR_TIMEOUT, "%s", text);
    }
    error.rank = hp_wait_chain_guilty(c);
    error.sequence = c->first.sequence;
    hp_roster_fail(r, &error);
}

/* All chains are found before the first ring fails: a ring that has failed is followed no more. */
void
hp_wait_chain_fail_others(hp_roster *rosters, const hp_roster *failed, uint64_t now)
{
    outlook v = look(rosters, failed);
    hp_wait_chain end = find(&v, failed), *chains;
    size_t n = 0, i = 0;
    for (const hp_roster *r = rosters; r; r = r->next)
        n++;
    chains = hp_alloc(n, sizeof(*chains));
    for (const hp_roster *r = rosters; r && chains; r = r->next, i++)
        if (r->state == HP_ROSTER_RUNNING && r->in_op_n && is_due(r, now))
            chains[i] = find(&v, r);
    i = 0;
    for (hp_roster *r = rosters; r && chains; r = r->next, i++)
        if (chains[i].hops && chains[i].last == end.last && chains[i].circle == end.circle)
            fail_with(&v, r, &chains[i], now);
    free(chains);
}
