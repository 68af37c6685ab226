/* SPDX-License-Identifier: MIT */
/*
 * peer_heartbeat: see peer_heartbeat.h. A table by rank; a heartbeat is new if its number is higher than the last
 * one's.
 */
#include "lib/peer_heartbeat.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/wire.h"

#include <stdlib.h>

enum {
    WITNESS_MS = 600, /* how long after the limit the others wait for a rank that sees which one is stalled */
    GAP_MS = 1500     /* between two heartbeats of a rank: what changed in a longer gap may have changed long ago */
};

hp_heartbeats *
hp_heartbeats_new(int size, int position, const int *order)
{
    hp_heartbeats *t = hp_alloc(1, sizeof(*t));
    size_t n = (size_t)size;
    if (!t)
        return NULL;
    *t = (hp_heartbeats){.size = size, .position = position, .order = order};
    t->of = hp_alloc(n, sizeof(*t->of));
    t->number = hp_alloc(n, sizeof(*t->number));
    t->fresh = hp_alloc(n, 1);
    t->alone = hp_alloc(n, 1);
    if (t->of && t->number && t->fresh && t->alone)
        return t;
    hp_heartbeats_free(t);
    return NULL;
}

void
hp_heartbeats_free(hp_heartbeats *t)
{
    if (!t)
        return;
    free(t->of);
    free(t->number);
    free(t->fresh);
    free(t->alone);
    free(t);
}

static void
freshen(hp_heartbeats *t, int rank)
{
    t->fresh_n += !t->fresh[rank];
    t->fresh[rank] = 1;
}

void
hp_heartbeats_make(hp_heartbeats *t, const hp_report *report, uint64_t completed, int alone, uint64_t now)
{
    int self = t->order[t->position];
    hp_witness *w = &t->of[self];
    if (!t->since)
        t->since = now;
    w->in_op = report != NULL;
    if (report)
        w->report = *report;
    w->completed = completed;
    w->last_seen = now;
    t->alone[self] = alone != 0;
    t->number[self]++;
    freshen(t, self);
}

static int
receive_one(hp_heartbeats *t, const uint8_t *in, uint64_t now)
{
    uint32_t rank = hp_get32(in), alone = hp_get32(in + 8);
    int32_t waits_for = (int32_t)hp_get32(in + 4);
    uint64_t number = hp_get64(in + 12);
    hp_witness received = {.report = {.sequence = hp_get64(in + 20), .awaited = {HP_WAIT_PEER, waits_for}}};
    received.in_op = received.report.sequence > 0;
    received.completed = hp_get64(in + 28);
    received.report.step = hp_get64(in + 36);
    received.report.bytes = hp_get64(in + 44);
    if (rank >= (uint32_t)t->size || waits_for < -1 || waits_for >= t->size || alone > 1 || number == 0)
        return 0;
    if ((int)rank == t->order[t->position] || number <= t->number[rank])
        return 1;
    t->number[rank] = number;
    t->alone[rank] = (uint8_t)alone;
    if (alone)
        t->asked = now;
    hp_witness *w = &t->of[rank];
    const hp_report *r = &received.report, *before = &w->report;
    /* a rank's first heartbeat does not show when it moved */
    int known = w->last_seen && now - w->last_seen <= GAP_MS * HP_MS;
    if (known && (received.in_op != w->in_op || received.completed > w->completed || r->sequence > before->sequence ||
                  r->step > before->step || r->bytes > before->bytes))
        t->moved = now;
    *w = received;
    w->last_seen = now;
    freshen(t, (int)rank);
    return 1;
}

int
hp_heartbeats_receive(hp_heartbeats *t, const uint8_t *in, size_t n, uint64_t now)
{
    if (n % HP_HEARTBEAT_BYTES)
        return 0;
    for (; n > 0; n -= HP_HEARTBEAT_BYTES, in += HP_HEARTBEAT_BYTES)
        if (!receive_one(t, in, now))
            return 0;
    return 1;
}

static int
rank_at(const hp_heartbeats *t, int place)
{
    return t->order[(t->position + t->next + place) % t->size];
}

static void
mark_passed_on(hp_heartbeats *t, int rank)
{
    t->fresh_n -= t->fresh[rank];
    t->fresh[rank] = 0;
}

size_t
hp_heartbeats_put(hp_heartbeats *t, int to, uint8_t out[HP_HEARTBEATS_BYTES])
{
    size_t used = 0;
    mark_passed_on(t, to);
    for (t->put = 0; t->put < t->size && used < HP_HEARTBEATS_BYTES && (int)(used / HP_HEARTBEAT_BYTES) < t->fresh_n;
         t->put++) {
        int rank = rank_at(t, t->put);
        if (!t->fresh[rank])
            continue;
        const hp_witness *w = &t->of[rank];
        hp_put32(out + used, (uint32_t)rank);
        hp_put32(out + used + 4, (uint32_t)(w->in_op ? w->report.awaited.rank : -1));
        hp_put32(out + used + 8, t->alone[rank]);
        hp_put64(out + used + 12, t->number[rank]);
        hp_put64(out + used + 20, w->in_op ? w->report.sequence : 0);
        hp_put64(out + used + 28, w->completed);
        hp_put64(out + used + 36, w->report.step);
        hp_put64(out + used + 44, w->report.bytes);
        used += HP_HEARTBEAT_BYTES;
    }
    return used;
}

void
hp_heartbeats_taken(hp_heartbeats *t)
{
    for (int i = 0; i < t->put; i++)
        mark_passed_on(t, rank_at(t, i));
    t->next = (t->next + t->put) % t->size;
    t->put = 0;
}

static int
waiting(const hp_heartbeats *t, int except, uint64_t alive)
{
    int n = 0;
    for (int rank = 0; rank < t->size; rank++)
        n += rank != except && t->of[rank].in_op && t->of[rank].last_seen >= alive;
    return n;
}

/*
 * The first rank downstream that is silent; -1: none is. Ranks behind it may be well. Each rank on the way may keep a
 * heartbeat for half an interval before it passes it on, so those of a far rank are older when they arrive.
 */
static int
first_silent(const hp_heartbeats *t, uint64_t alive, uint64_t interval)
{
    for (int d = 1; d < t->size; d++) {
        int rank = t->order[(t->position + d) % t->size];
        if (t->of[rank].last_seen + (uint64_t)d * interval / 2 < alive)
            return rank;
    }
    return -1;
}

/* This rank waits for one, that one for another, and so on: the last of them before `rank`; -1 if none waits for it. */
static int
last_before(const hp_heartbeats *t, int rank, uint64_t alive)
{
    int at = t->order[t->position];
    for (int steps = 0; steps < t->size; steps++) {
        const hp_witness *w = &t->of[at];
        if (!w->in_op || w->last_seen < alive || w->report.awaited.rank < 0)
            return -1;
        if (w->report.awaited.rank == rank)
            return at;
        at = w->report.awaited.rank;
    }
    return -1;
}

hp_blame
hp_heartbeats_blame(const hp_heartbeats *t, uint64_t sequence, uint64_t alive)
{
    hp_blame blame = {.rank = -1, .other = -1, .sequence = sequence};
    const hp_report *own = &t->of[t->order[t->position]].report;
    int rank = first_silent(t, alive, 0);
    if (own->sequence == sequence)
        blame.call = own->call;
    if (rank < 0)
        return hp_blame_find(t->of, t->size, UINT64_MAX);
    blame.other = last_before(t, rank, alive);
    if (blame.other < 0)
        return blame;
    const hp_witness *w = &t->of[rank];
    blame.guilt = w->in_op && w->report.sequence >= sequence ? HP_GUILT_SILENT : HP_GUILT_ABSENT;
    blame.rank = rank;
    blame.waiting = waiting(t, rank, alive);
    return blame;
}

/*
 * Whether the rank `from` places downstream can conclude, from the heartbeats it receives, that its waits lead to the
 * one `to` places downstream.
 */
static int
sees(const hp_heartbeats *t, int from, int to)
{
    int silent = t->order[(t->position + to) % t->size], far = from;
    for (int steps = 0; steps < t->size; steps++) {
        const hp_witness *w = &t->of[t->order[(t->position + far) % t->size]];
        if (!w->in_op || w->report.awaited.rank < 0)
            return 0;
        if (w->report.awaited.rank == silent)
            return 1;
        for (far = from + 1; far < to && t->order[(t->position + far) % t->size] != w->report.awaited.rank; far++)
            continue;
        if (far >= to)
            return 0;
    }
    return 0;
}

int
hp_heartbeats_should_warn(const hp_heartbeats *t, uint64_t alive)
{
    int to = 1;
    while (to < t->size && t->of[t->order[(t->position + to) % t->size]].last_seen >= alive)
        to++;
    for (int d = 1; to < t->size && d < to; d++)
        if (sees(t, d, to))
            return 0;
    for (int rank = 0; to == t->size && rank < t->order[t->position]; rank++)
        if (t->of[rank].in_op)
            return 0;
    return 1;
}

int
hp_heartbeats_is_sure(hp_heartbeats *t, int sees, uint64_t interval, uint64_t now)
{
    if (!sees)
        t->sees = 0;
    else if (!t->sees)
        t->sees = now;
    return sees && now - t->sees >= interval;
}

/* Follows the waits from this rank to the first rank that is silent; -1: they end at one that is alive. */
static int
silent_by_waits(const hp_heartbeats *t, uint64_t alive)
{
    int at = t->order[t->position];
    for (int steps = 0; steps < t->size; steps++) {
        const hp_witness *w = &t->of[at];
        if (w->last_seen < alive)
            return at;
        if (!w->in_op || w->report.awaited.rank < 0)
            return -1;
        at = w->report.awaited.rank;
    }
    return -1;
}

/*
 * No rank that sees more has named one in time. Where all ranks wait for all, the first silent rank downstream is
 * stalled, since the ranks before it pass on the heartbeats they receive. Where a rank may be done with its part and
 * rest, as the root of a broadcast, the silent rank that the waits lead to is likelier.
 */
static hp_blame
guess(const hp_heartbeats *t, uint64_t sequence, int may_rest, uint64_t alive, uint64_t interval)
{
    hp_blame blame = {.rank = -1, .other = -1, .sequence = sequence};
    int rank = may_rest ? silent_by_waits(t, alive) : -1;
    if (rank < 0)
        rank = first_silent(t, alive, interval);
    if (rank < 0)
        return blame;
    const hp_witness *w = &t->of[rank];
    blame.guilt = w->in_op && w->report.sequence >= sequence ? HP_GUILT_SILENT : HP_GUILT_ABSENT;
    blame.rank = rank;
    blame.other = t->order[t->position];
    blame.waiting = waiting(t, rank, alive);
    return blame;
}

int
hp_heartbeats_has_listened(const hp_heartbeats *t, uint64_t interval, uint64_t now)
{
    return t->since && now - t->since >= HP_SILENT_HEARTBEATS * interval;
}

hp_blame
hp_heartbeats_judge(const hp_heartbeats *t, uint64_t sequence, int may_rest, const hp_heartbeat_clock *clock)
{
    hp_blame none = {.rank = -1, .other = -1, .sequence = sequence};
    uint64_t alive = clock->now - HP_SILENT_HEARTBEATS * clock->interval, moved = hp_heartbeats_moved(t, clock);
    if (clock->now - moved < clock->limit || !hp_heartbeats_has_listened(t, clock->interval, clock->now))
        return none;
    hp_blame blame = hp_heartbeats_blame(t, sequence, alive);
    if (blame.guilt || clock->now - moved < clock->limit + WITNESS_MS * HP_MS)
        return blame;
    return guess(t, sequence, may_rest, alive, clock->interval);
}

uint64_t
hp_heartbeats_moved(const hp_heartbeats *t, const hp_heartbeat_clock *clock)
{
    return t->moved > clock->moved ? t->moved : clock->moved;
}

int
hp_heartbeats_late(const hp_heartbeats *t, const hp_heartbeat_clock *clock)
{
    return clock->now - hp_heartbeats_moved(t, clock) >= clock->limit + WITNESS_MS * HP_MS;
}
