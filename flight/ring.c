/* SPDX-License-Identifier: MIT */
/* ring: see ring.h. */
#include "flight/ring.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* --- one recorder --- */

static const hp_flight_head *
head_of(const hp_flight_member *m)
{
    return &m->entry->flight->head;
}

uint64_t
hp_flight_date(const hp_flight_entry *entry, uint64_t time)
{
    const hp_flight_head *head = &entry->flight->head;
    return head->realtime + (time - head->monotonic);
}

double
hp_flight_ago(const hp_flight_entry *entry, uint64_t time)
{
    uint64_t date = hp_flight_date(entry, time);
    return entry->looked > date ? (double)(entry->looked - date) / (double)HP_SEC : 0;
}

static int
is_operation(const hp_flight_record *r, uint64_t sequence)
{
    return r->sequence == sequence && !hp_kind_is_message(r->call.kind);
}

/* Without messages it is as many places before the newest one as operations have followed it. */
const hp_flight_record *
hp_flight_find(const hp_flight *flight, uint64_t sequence)
{
    const hp_flight_record *newest = flight->count ? &flight->record[flight->count - 1] : NULL;
    uint64_t back = newest ? newest->sequence - sequence : 0;
    if (newest && back < (uint64_t)flight->count && is_operation(newest - back, sequence))
        return newest - back;
    for (int i = flight->count - 1; i >= 0; i--)
        if (is_operation(&flight->record[i], sequence))
            return &flight->record[i];
    return NULL;
}

static hp_flight_member
member_of(const hp_flight_entry *entry)
{
    hp_flight_member m = {.entry = entry};
    const hp_flight *f = entry->flight;
    m.latest = f->head.split_at;
    for (int i = 0; i < f->count; i++) {
        const hp_flight_record *r = &f->record[i];
        const uint64_t times[] = {r->entered, r->first, r->last, r->left};
        for (int k = 0; k < 4; k++)
            m.latest = times[k] > m.latest ? times[k] : m.latest;
        int message = hp_kind_is_message(r->call.kind), stuck = !r->left || r->result != HOOP_SUCCESS;
        if (!message)
            m.last = r;
        if (stuck && message && !m.message)
            m.message = r;
        if (stuck && !message && !m.stuck)
            m.stuck = r;
    }
    return m;
}

const char *
hp_flight_ring_name(const hp_flight_ring *ring)
{
    const char *name = "";
    for (int i = 0; i < ring->count && !name[0]; i++)
        name = ring->member[i].entry->flight->head.name;
    return name;
}

/*
 * A second before the reading, or less. Where the clock of the reader is not that of the process, which is of another host
 * or of before a reboot, nobody knows.
 */
static int
is_recent(const hp_flight_member *m)
{
    return m->latest && m->entry->looked >= hp_flight_date(m->entry, m->latest) &&
           hp_flight_ago(m->entry, m->latest) < 1;
}

/* It does nothing more here. */
static int
is_over(const hp_flight_member *m)
{
    return m->entry->state == HP_FLIGHT_STOPPED || m->entry->state == HP_FLIGHT_ENDED ||
           m->entry->flight->head.error_code || (m->stuck && m->stuck->left) || (m->message && m->message->left);
}

/* Recorders are read one after the other, so of ranks at work one seems to be late, which is not. */
static int
is_at_work(const hp_flight_ring *ring)
{
    int moves = 0, over = 0, recent = 0;
    for (int i = 0; i < ring->count; i++) {
        const hp_flight_member *m = &ring->member[i];
        moves |= m->entry->state == HP_FLIGHT_MOVES;
        over |= is_over(m);
        recent |= is_recent(m);
    }
    return (moves || recent) && !over;
}

/* --- ranks of a ring --- */

const hp_flight_member *
hp_flight_first(const hp_flight_ring *ring, hp_flight_is *is, uint64_t n)
{
    for (int i = 0; i < ring->count; i++)
        if (is(&ring->member[i], n))
            return &ring->member[i];
    return NULL;
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

/* Notes that the rank is in this call, which began then. */
static void
note(hp_flight_rings *rings, hp_flight_place p, hp_wait_call kind, uint64_t number, uint64_t since)
{
    int process = p.member->process;
    p.over = head_of(p.member)->error_code != HOOP_SUCCESS || (p.record && p.record->left);
    hp_wait_edge *known = &rings->wait[process], edge = {.at = p.member,
                                                         .whom = -1,
                                                         .failed = p.over,
                                                         .ring = (int)(p.ring - rings->ring),
                                                         .kind = kind,
                                                         .number = number,
                                                         .since = since};
    hp_wait_graph_note(known, &edge, p.member->entry->state == HP_FLIGHT_ENDED);
    if (known->at == edge.at && known->kind == kind)
        rings->place[process] = p;
}

static void
note_waits(hp_flight_rings *rings)
{
    for (int i = 0; i < rings->count; i++)
        for (int k = 0; !rings->ring[i].at_work && k < rings->ring[i].count; k++) {
            const hp_flight_member *m = &rings->ring[i].member[k];
            const hp_flight_head *head = head_of(m);
            hp_flight_place p = {.ring = &rings->ring[i], .member = m};
            if ((p.record = m->stuck))
                note(rings, p, HP_IN_OPERATION, m->stuck->sequence, m->stuck->entered);
            if ((p.record = m->message))
                note(rings, p, HP_IN_MESSAGE, (uint64_t)head->rank, m->message->entered);
            p.record = NULL;
            if ((p.splits = hp_flight_splits(m, 0)))
                note(rings, p, HP_IN_SPLIT, head->split, head->split_at);
        }
}

int
hp_flight_works_elsewhere(const hp_flight_rings *rings, const hp_flight_member *m)
{
    for (int i = 0; i < rings->count; i++)
        for (int k = 0; rings->ring[i].at_work && k < rings->ring[i].count; k++) {
            const hp_flight_member *o = &rings->ring[i].member[k];
            if (o != m && o->process == m->process)
                return 1;
        }
    return 0;
}

/*
 * The place of a rank of this ring; or, if its process is in no call, another communicator of it that has failed. Where all
 * ranks of the ring have ended, the end of one says nothing.
 */
static hp_flight_place
find_place(const hp_flight_rings *rings, const hp_flight_ring *ring, const hp_flight_member *m)
{
    hp_flight_place p = rings->place[m->process];
    for (int i = 0; i < rings->count && !p.member; i++)
        for (int k = 0; !rings->ring[i].at_work && k < rings->ring[i].count; k++) {
            const hp_flight_member *o = &rings->ring[i].member[k];
            if (o != m && o->process == m->process && head_of(o)->error_code)
                p = (hp_flight_place){.ring = &rings->ring[i], .member = o, .over = 1};
        }
    int gone = is_stopped(m, 0) || (hp_flight_has_died(m, 0) && !p.over && hp_flight_first(ring, has_survived, 0));
    return gone ? (hp_flight_place){0} : p;
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
awaited(const hp_flight_place *p)
{
    const hp_flight_member *m = NULL;
    if (p->splits)
        m = hp_flight_first(p->ring, hp_flight_has_not_split, head_of(p->member)->split);
    else if (hp_kind_is_message(p->record->call.kind)) {
        int rank = hp_flight_peer_of(p->record);
        m = rank < 0 ? NULL : hp_flight_first(p->ring, hp_flight_has_rank, (uint64_t)rank);
        m = m && is_transfer(p->member, p->record, m) ? NULL : m;
    } else {
        m = hp_flight_first(p->ring, hp_flight_is_behind, p->record->sequence);
        m = m ? m : hp_flight_find_gone(p->ring);
    }
    return m == p->member ? NULL : m;
}

/* For whom each process waits, once the places of all are known. */
static void
make_graph(hp_flight_rings *rings, int processes)
{
    for (int i = 0; i < processes; i++) {
        hp_flight_place *p = &rings->place[i];
        rings->wait[i].whom = -1;
        if (!p->member || !(p->awaited = awaited(p)))
            continue;
        rings->wait[i].whom = p->awaited->process;
        rings->wait[i].is_last =
            rings->place[p->awaited->process].member && !find_place(rings, p->ring, p->awaited).member;
    }
}

/* --- the chain --- */

hp_flight_chain
hp_flight_follow(const hp_flight_rings *rings, const hp_flight_ring *ring, const hp_flight_member *m)
{
    hp_flight_place first = find_place(rings, ring, m);
    hp_flight_chain c = {.first = first, .ring = ring, .end = m, .last = first};
    if (!first.awaited)
        return c;
    hp_wait_finding found = hp_wait_graph_follow(rings->wait, m->process);
    const hp_flight_place *last = &rings->place[found.waiter];
    c.circle = found.closed;
    if (found.circle)
        return c;
    c.hops = found.hops;
    c.ring = last->ring;
    c.end = last->awaited;
    c.last = find_place(rings, c.ring, c.end);
    return c;
}

/* --- all of them --- */

/* Communicator by communicator, rank by rank; of a rank that has two the newer one first, or the one read last. */
static int
compare(const void *a, const void *b)
{
    const hp_flight_head *x = &((const hp_flight_member *)a)->entry->flight->head;
    const hp_flight_head *y = &((const hp_flight_member *)b)->entry->flight->head;
    int job = strcmp(x->job, y->job);
    if (job != 0)
        return job;
    if (x->comm != y->comm)
        return x->comm < y->comm ? -1 : 1;
    if (x->epoch != y->epoch)
        return x->epoch < y->epoch ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->realtime != y->realtime)
        return x->realtime > y->realtime ? -1 : 1;
    uint64_t p = ((const hp_flight_member *)a)->entry->looked, q = ((const hp_flight_member *)b)->entry->looked;
    return (p < q) - (p > q);
}

/* A communicator of one rank has no id. */
static int
is_next(const hp_flight_ring *ring, const hp_flight_member *member)
{
    const hp_flight_head *x = &ring->member->entry->flight->head, *y = &member->entry->flight->head;
    return x->comm && strcmp(x->job, y->job) == 0 && x->comm == y->comm && x->epoch == y->epoch && x->size == y->size;
}

static void
gather(hp_flight_rings *rings, size_t count)
{
    hp_flight_ring *ring = NULL;
    for (size_t i = 0; i < count; i++) {
        hp_flight_member *m = &rings->member[i];
        if (!ring || !is_next(ring, m)) {
            ring = &rings->ring[rings->count++];
            *ring = (hp_flight_ring){.member = m, .count = 1, .size = m->entry->flight->head.size};
        } else if (ring->member[ring->count - 1].entry->flight->head.rank != m->entry->flight->head.rank) {
            ring->member[ring->count++] = *m;
        }
    }
}

static uint64_t
born(const hp_flight_ring *ring)
{
    uint64_t first = UINT64_MAX;
    for (int i = 0; i < ring->count; i++) {
        uint64_t made = ring->member[i].entry->flight->head.realtime;
        first = made < first ? made : first;
    }
    return first;
}

static int
by_age(const void *a, const void *b)
{
    uint64_t x = born(a), y = born(b);
    if (x == y) {
        x = ((const hp_flight_ring *)a)->member->entry->flight->head.comm;
        y = ((const hp_flight_ring *)b)->member->entry->flight->head.comm;
    }
    return (x > y) - (x < y);
}

/* --- jobs: their names do not tell them apart, as many have none --- */

/* A process is in a ring. */
typedef struct seat {
    hp_flight_member *member;
    int ring;
} seat;

static int
by_process(const void *a, const void *b)
{
    const hp_flight_head *x = head_of(((const seat *)a)->member), *y = head_of(((const seat *)b)->member);
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    if (x->started != y->started)
        return x->started < y->started ? -1 : 1;
    if (x->pid_space != y->pid_space)
        return x->pid_space < y->pid_space ? -1 : 1;
    return strcmp(x->host, y->host);
}

/* The first ring of the job, as far as it is known; each ring points to itself or to an earlier one. */
static int
first_of_job(const hp_flight_rings *rings, int i)
{
    while (rings->ring[i].job != i)
        i = rings->ring[i].job;
    return i;
}

static void
join_jobs(hp_flight_rings *rings, int a, int b)
{
    int first = first_of_job(rings, a), second = first_of_job(rings, b);
    rings->ring[first > second ? first : second].job = first < second ? first : second;
}

/* Gives processes their numbers, too. 0: out of memory. */
static int
tell_jobs_apart(hp_flight_rings *rings, size_t most)
{
    size_t n = 0;
    seat *seats = hp_alloc(most + 1, sizeof(*seats));
    for (int i = 0; i < rings->count && seats; i++) {
        rings->ring[i].job = i;
        for (int k = 0; k < rings->ring[i].count; k++)
            seats[n++] = (seat){.member = &rings->ring[i].member[k], .ring = i};
    }
    if (n > 0)
        qsort(seats, n, sizeof(*seats), by_process);
    for (size_t k = 1; k < n; k++) {
        int same = by_process(&seats[k - 1], &seats[k]) == 0;
        seats[k].member->process = seats[k - 1].member->process + !same;
        if (same)
            join_jobs(rings, seats[k - 1].ring, seats[k].ring);
    }
    for (int i = 0; i < rings->count; i++)
        rings->ring[i].job = first_of_job(rings, i);
    free(seats);
    return seats != NULL;
}

static int
is_alive(const hp_flight_ring *ring)
{
    int alive = 0;
    for (int i = 0; i < ring->count; i++)
        alive |= ring->member[i].entry->state != HP_FLIGHT_ENDED;
    return alive;
}

/* Jobs count that live; where none does, the one whose first ring is the newest. */
static void
choose_jobs(hp_flight_rings *rings)
{
    int newest = -1, living = 0;
    for (int i = 0; i < rings->count; i++) {
        hp_flight_ring *first = &rings->ring[rings->ring[i].job];
        first->counts |= is_alive(&rings->ring[i]);
        living |= first->counts;
        newest = rings->ring[i].job == i ? i : newest;
    }
    if (!living && newest >= 0)
        rings->ring[newest].counts = 1;
    for (int i = 0; i < rings->count; i++) {
        int job = rings->ring[i].job;
        rings->ring[i].counts = rings->ring[job].counts;
        rings->others += job == i && !rings->ring[i].counts;
    }
}

int
hp_flight_rings_make(hp_flight_rings *rings, const hp_flight_collection *all)
{
    *rings = (hp_flight_rings){.member = hp_alloc(all->count + 1, sizeof(hp_flight_member)),
                               .ring = hp_alloc(all->count + 1, sizeof(hp_flight_ring)),
                               .place = hp_alloc(all->count + 1, sizeof(hp_flight_place)),
                               .wait = hp_alloc(all->count + 1, sizeof(hp_wait_edge))};
    if (!rings->member || !rings->ring || !rings->place || !rings->wait) {
        hp_flight_rings_free(rings);
        return 0;
    }
    for (size_t i = 0; i < all->count; i++)
        rings->member[i] = member_of(&all->entry[i]);
    qsort(rings->member, all->count, sizeof(*rings->member), compare);
    gather(rings, all->count);
    for (int i = 0; i < rings->count; i++)
        rings->ring[i].at_work = is_at_work(&rings->ring[i]);
    qsort(rings->ring, (size_t)rings->count, sizeof(*rings->ring), by_age);
    if (!tell_jobs_apart(rings, all->count)) {
        hp_flight_rings_free(rings);
        return 0;
    }
    choose_jobs(rings);
    note_waits(rings);
    make_graph(rings, (int)all->count);
    return 1;
}

void
hp_flight_rings_free(hp_flight_rings *rings)
{
    free(rings->member);
    free(rings->ring);
    free(rings->place);
    free(rings->wait);
    *rings = (hp_flight_rings){0};
}
