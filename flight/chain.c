/* SPDX-License-Identifier: MIT */
/* chain: see chain.h. What ended by an error was waited in until then, so a chain can be followed after a time-out, too. */
#include "flight/chain.h"

/* --- ranks of a ring --- */

const hp_flight_member *
hp_flight_first(const hp_flight_ring *ring, hp_flight_is *is, uint64_t n)
{
    for (int i = 0; i < ring->count; i++)
        if (is(&ring->member[i], n))
            return &ring->member[i];
    return NULL;
}

static const hp_flight_head *
head_of(const hp_flight_member *m)
{
    return &m->entry->flight->head;
}

/* A rank has called what a message follows, even if the record of that is overwritten. */
int
hp_flight_is_behind(const hp_flight_member *m, uint64_t sequence)
{
    const hp_flight *f = m->entry->flight;
    uint64_t newest = f->count ? f->record[f->count - 1].sequence : 0;
    return newest < sequence && (!m->last || m->last->sequence < sequence);
}

int
hp_flight_has_rank(const hp_flight_member *m, uint64_t rank)
{
    return (uint64_t)head_of(m)->rank == rank;
}

/* A rank that has called anything since is out of it. */
int
hp_flight_splits(const hp_flight_member *m, uint64_t unused)
{
    const hp_flight *f = m->entry->flight;
    uint64_t newest = f->count ? f->record[f->count - 1].entered : 0;
    (void)unused;
    return f->head.split_at > newest;
}

int
hp_flight_has_not_split(const hp_flight_member *m, uint64_t number)
{
    return head_of(m)->split < number;
}

int
hp_flight_has_died(const hp_flight_member *m, uint64_t unused)
{
    (void)unused;
    return m->entry->state == HP_FLIGHT_ENDED && !head_of(m)->error_code;
}

static int
has_survived(const hp_flight_member *m, uint64_t unused)
{
    return !hp_flight_has_died(m, unused);
}

static int
is_stopped(const hp_flight_member *m, uint64_t unused)
{
    (void)unused;
    return m->entry->state == HP_FLIGHT_STOPPED;
}

const hp_flight_member *
hp_flight_find_gone(const hp_flight_ring *ring)
{
    const hp_flight_member *stopped = hp_flight_first(ring, is_stopped, 0);
    if (stopped)
        return stopped;
    return hp_flight_first(ring, has_survived, 0) ? hp_flight_first(ring, hp_flight_has_died, 0) : NULL;
}

/* --- where a process waits --- */

static uint64_t
since(const hp_flight_place *p)
{
    return p->record ? p->record->entered : p->splits ? head_of(p->member)->split_at : UINT64_MAX;
}

/* One that ended was in what failed, another one is in what has not; of several, in what it called first. */
static int
is_better(const hp_flight_place *a, const hp_flight_place *b)
{
    int over = a->member->entry->state == HP_FLIGHT_ENDED;
    if (!b->member)
        return 1;
    return a->over != b->over ? a->over == over : since(a) < since(b);
}

static void
consider(hp_flight_place *best, hp_flight_place p)
{
    int failed = head_of(p.member)->error_code != HOOP_SUCCESS;
    p.over = failed || (p.record && p.record->left);
    if (is_better(&p, best))
        *best = p;
}

/* What holds the process in this ring. `here`: that it has failed here, in no call, says nothing. */
static void
look_at(hp_flight_place *best, const hp_flight_ring *ring, const hp_flight_member *o, int here)
{
    int splits = hp_flight_splits(o, 0);
    if (ring->at_work)
        return;
    if (o->stuck)
        consider(best, (hp_flight_place){.ring = ring, .member = o, .record = o->stuck});
    if (o->message)
        consider(best, (hp_flight_place){.ring = ring, .member = o, .record = o->message});
    if (splits)
        consider(best, (hp_flight_place){.ring = ring, .member = o, .splits = 1});
    if (!here && head_of(o)->error_code && !o->stuck && !o->message && !splits)
        consider(best, (hp_flight_place){.ring = ring, .member = o});
}

/* Where all have ended, the end of one says nothing. */
static int
is_gone(const hp_flight_ring *ring, const hp_flight_member *m, const hp_flight_place *p)
{
    return is_stopped(m, 0) || (hp_flight_has_died(m, 0) && !p->over && hp_flight_first(ring, has_survived, 0));
}

static hp_flight_place
find_place(const hp_flight_rings *rings, const hp_flight_ring *ring, const hp_flight_member *m)
{
    const hp_flight_place nowhere = {0};
    hp_flight_place p = nowhere;
    for (int i = 0; i < rings->count; i++)
        for (int k = 0; k < rings->ring[i].count; k++) {
            const hp_flight_member *o = &rings->ring[i].member[k];
            if (hp_flight_same_process(m->entry, o->entry))
                look_at(&p, &rings->ring[i], o, o == m);
        }
    return is_gone(ring, m, &p) ? nowhere : p;
}

int
hp_flight_works_elsewhere(const hp_flight_rings *rings, const hp_flight_member *m)
{
    for (int i = 0; i < rings->count; i++)
        for (int k = 0; rings->ring[i].at_work && k < rings->ring[i].count; k++) {
            const hp_flight_member *o = &rings->ring[i].member[k];
            if (o != m && hp_flight_same_process(m->entry, o->entry))
                return 1;
        }
    return 0;
}

/* --- for whom --- */

int
hp_flight_peer_of(const hp_flight_record *r)
{
    return hp_wait_is_for_rank(r->wait) && r->awaited >= 0 ? r->awaited : r->peer;
}

/* Whether two ranks are in both ends of one message: what it waits for is no rank. */
static int
is_transfer(const hp_flight_member *a, const hp_flight_record *r, const hp_flight_member *b)
{
    const hp_flight_record *s = b->message;
    if (!s || hp_flight_peer_of(s) != head_of(a)->rank || r->call.root != s->call.root)
        return 0;
    return r->call.kind == HP_ALLTOALLV ? s->call.kind == HP_ALLTOALLV : r->call.kind != s->call.kind;
}

static const hp_flight_member *
awaited_peer(const hp_flight_place *p)
{
    int rank = hp_flight_peer_of(p->record);
    const hp_flight_member *peer = rank < 0 ? NULL : hp_flight_first(p->ring, hp_flight_has_rank, (uint64_t)rank);
    return peer && !is_transfer(p->member, p->record, peer) ? peer : NULL;
}

const hp_flight_member *
hp_flight_awaited(const hp_flight_place *p)
{
    const hp_flight_member *m = NULL;
    if (p->member && p->splits)
        m = hp_flight_first(p->ring, hp_flight_has_not_split, head_of(p->member)->split);
    else if (p->record && hp_kind_is_message(p->record->call.kind))
        m = awaited_peer(p);
    else if (p->record) {
        m = hp_flight_first(p->ring, hp_flight_is_behind, p->record->sequence);
        m = m ? m : hp_flight_find_gone(p->ring);
    }
    return m == p->member ? NULL : m;
}

/* --- the chain --- */

static int
count_members(const hp_flight_rings *rings)
{
    int count = 0;
    for (int i = 0; i < rings->count; i++)
        count += rings->ring[i].count;
    return count;
}

hp_flight_chain
hp_flight_follow(const hp_flight_rings *rings, const hp_flight_ring *ring, const hp_flight_member *m)
{
    hp_flight_place first = find_place(rings, ring, m);
    const hp_flight_chain none = {.first = first, .ring = ring, .end = m, .last = first};
    hp_flight_chain c = none;
    int most = count_members(rings), circle = 0;
    for (const hp_flight_member *next; !circle && c.hops <= most && (next = hp_flight_awaited(&c.last));) {
        circle = hp_flight_same_process(next->entry, m->entry);
        c.hops++;
        c.ring = c.last.ring;
        c.end = next;
        c.last = find_place(rings, c.ring, next);
    }
    if (circle || c.hops > most)
        c = none;
    c.circle = circle;
    return c;
}
