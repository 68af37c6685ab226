/* SPDX-License-Identifier: MIT */
/* crossing: see crossing.h. The older ring is told first, and ranks are named by their numbers in it. */
#include "rendezvous/crossing.h"

#include "base/clock.h"
#include "rendezvous/limit.h"
#include "rendezvous/rings.h"

#include <stdio.h>
#include <string.h>

/* A rank of `ring`, which waits for it, and where it waits itself. */
typedef struct crossing {
    const hp_roster *ring, *other;
    hp_blame blame, other_blame;
} crossing;

static hp_blame
blame_of(const hp_roster *r)
{
    return hp_blame_find(r->witnesses, r->ring.size, HP_SILENT_HEARTBEATS * r->heartbeat);
}

static int
is_absent(const hp_roster *r, const hp_blame *blame)
{
    return blame->guilt == HP_GUILT_ABSENT && r->witnesses[blame->rank].completed < blame->sequence;
}

/* The rank of this process if it is in an operation of the ring; -1: it is not. */
static int
waiting_as(const hp_roster *r, const hp_member *who)
{
    for (int i = 0; i < r->ring.size; i++) {
        const hp_member *m = &r->ring.members[i];
        if (m->pid == who->pid && m->host_id == who->host_id && r->witnesses[i].in_op)
            return i;
    }
    return -1;
}

static int
find(const hp_roster *rosters, const hp_roster *r, crossing *c)
{
    *c = (crossing){.ring = r, .blame = blame_of(r)};
    if (!is_absent(r, &c->blame))
        return 0;
    for (const hp_roster *q = rosters; q && !c->other; q = q->next)
        if (q != r && q->state == HP_ROSTER_RUNNING && waiting_as(q, &r->ring.members[c->blame.rank]) >= 0)
            c->other = q;
    if (!c->other)
        return 0;
    c->other_blame = blame_of(c->other);
    return is_absent(c->other, &c->other_blame) && waiting_as(r, &c->other->ring.members[c->other_blame.rank]) >= 0;
}

/* A job's list begins with its newest ring. */
static int
is_older(const hp_roster *rosters, const hp_roster *a, const hp_roster *b)
{
    while (rosters != a && rosters != b)
        rosters = rosters->next;
    return rosters == b;
}

static crossing
swap(const crossing *c)
{
    return (crossing){c->other, c->ring, c->other_blame, c->blame};
}

/* "the whole job" or "split 1 colour 0" */
static const char *
name(const hp_roster *r)
{
    const char *split = strstr(r->label, "split");
    return r->world || !split ? "the whole job" : split;
}

int
hp_crossing_print(const hp_roster *rosters, uint64_t comm, uint64_t stalled, char *out, size_t size)
{
    char mine[HP_OPERATION_TEXT], theirs[HP_OPERATION_TEXT];
    const hp_roster *r = rosters;
    crossing c;
    while (r && r->ring.comm != comm)
        r = r->next;
    if (!r || !find(rosters, r, &c))
        return 0;
    if (is_older(rosters, c.other, c.ring))
        c = swap(&c);
    const hp_member *late = &c.ring->ring.members[c.blame.rank];
    const hp_member *waits = &c.ring->ring.members[waiting_as(c.ring, &c.other->ring.members[c.other_blame.rank])];
    snprintf(
        out, size,
        "rank %d (%.24s, pid %u) waits in %s of %s, and rank %d (%.24s, pid %u) in %s of %s: call them in the same "
        "order; waited %.1f s",
        late->rank, late->host, late->pid, hp_blame_operation(c.other_blame.sequence, &c.other_blame.call, theirs),
        name(c.other), waits->rank, waits->host, waits->pid, hp_blame_operation(c.blame.sequence, &c.blame.call, mine),
        name(c.ring), (double)stalled / 1e9);
    return 1;
}

void
hp_crossing_fail_other(hp_roster *rosters, const hp_roster *failed, uint64_t now)
{
    crossing c;
    if (!find(rosters, failed, &c))
        return;
    const hp_roster *other = c.other;
    uint64_t limit = hp_limit_shortest(other->witnesses, other->ring.size, other->op_timeout);
    if (limit == HP_NEVER || now - other->moved + 2 * other->heartbeat < limit)
        return;
    hoop_error same = failed->cause;
    same.rank = c.other_blame.rank;
    same.sequence = c.other_blame.sequence;
    hp_roster_fail(hp_rings_find(rosters, other->ring.comm), &same);
}
