/* SPDX-License-Identifier: MIT */
/* ring: see ring.h. */
#include "flight/ring.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* --- one recorder --- */

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

int
hp_flight_same_process(const hp_flight_entry *a, const hp_flight_entry *b)
{
    const hp_flight_head *x = &a->flight->head, *y = &b->flight->head;
    return x->pid == y->pid && x->started == y->started && x->pid_space == y->pid_space &&
           strcmp(x->host, y->host) == 0;
}

static uint64_t
latest_of(const hp_flight_record *r, uint64_t latest)
{
    const uint64_t times[] = {r->entered, r->first, r->last, r->left};
    for (int i = 0; i < 4; i++)
        latest = times[i] > latest ? times[i] : latest;
    return latest;
}

static hp_flight_member
member_of(const hp_flight_entry *entry)
{
    hp_flight_member m = {.entry = entry};
    const hp_flight *f = entry->flight;
    m.latest = f->head.split_at;
    for (int i = 0; i < f->count; i++) {
        const hp_flight_record *r = &f->record[i];
        m.latest = latest_of(r, m.latest);
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
    const hp_flight_entry *entry;
    int ring;
} seat;

static int
by_process(const void *a, const void *b)
{
    const hp_flight_head *x = &((const seat *)a)->entry->flight->head, *y = &((const seat *)b)->entry->flight->head;
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

/* 0: out of memory. */
static int
tell_jobs_apart(hp_flight_rings *rings, size_t most)
{
    size_t n = 0;
    seat *seats = hp_alloc(most + 1, sizeof(*seats));
    for (int i = 0; i < rings->count && seats; i++) {
        rings->ring[i].job = i;
        for (int k = 0; k < rings->ring[i].count; k++)
            seats[n++] = (seat){.entry = rings->ring[i].member[k].entry, .ring = i};
    }
    if (n > 0)
        qsort(seats, n, sizeof(*seats), by_process);
    for (size_t k = 1; k < n; k++)
        if (by_process(&seats[k - 1], &seats[k]) == 0)
            join_jobs(rings, seats[k - 1].ring, seats[k].ring);
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
                               .ring = hp_alloc(all->count + 1, sizeof(hp_flight_ring))};
    if (!rings->member || !rings->ring) {
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
    return 1;
}

void
hp_flight_rings_free(hp_flight_rings *rings)
{
    free(rings->member);
    free(rings->ring);
    *rings = (hp_flight_rings){0};
}
