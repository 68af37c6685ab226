/* SPDX-License-Identifier: MIT */
/*
 * story: see story.h. Each communicator has a story; the one whose plot says most about a cause is told. A rank is late
 * if the others wait in an operation that it has not called. What it does instead is looked up among all recorders of
 * its process, and whom it awaits there (flight/ring.h).
 */
#include "flight/story.h"

#include "base/say.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const hp_flight_head *
head_of(const hp_flight_member *m)
{
    return &m->entry->flight->head;
}

/* --- words --- */

static void __attribute__((format(printf, 2, 3))) add(hp_flight_story *story, const char *format, ...)
{
    size_t used = strlen(story->text);
    va_list ap;
    va_start(ap, format);
    vsnprintf(story->text + used, sizeof(story->text) - used, format, ap);
    va_end(ap);
}

/* The ranks of the ring for which `is` holds. Returns how many. */
static int
add_ranks(hp_flight_story *story, hp_flight_is *is, uint64_t sequence)
{
    const hp_flight_ring *ring = story->ring;
    uint64_t *set = hp_rank_set_new(ring->size);
    int count = 0;
    for (int i = 0; i < ring->count; i++)
        if (is(&ring->member[i], sequence)) {
            count++;
            if (set)
                hp_rank_set_add(set, head_of(&ring->member[i])->rank);
        }
    add(story, "%s", set ? hp_say_ranks(set, ring->size, 1).text : "ranks");
    free(set);
    return count;
}

static void
add_operation(hp_flight_story *story, const hp_flight_record *r)
{
    add(story, "%s", hp_say_operation(r->sequence, &r->call).text);
}

/* Only the first message of a group is written down, but for whom the group waits may be known. */
static void
add_message(hp_flight_story *story, const hp_flight_record *r)
{
    char call[128];
    int receives = r->call.kind == HP_RECV, awaited = hp_flight_peer_of(r);
    add(story, "%s", hp_call_print(&r->call, call, sizeof(call)));
    if (r->call.kind == HP_ALLTOALLV)
        return;
    if (r->peer < 0)
        add(story, " from any rank");
    else
        add(story, " %s rank %d", receives ? "from" : "to", r->peer);
    if (awaited != r->peer)
        add(story, ", the first of %u messages, for rank %d", r->messages, awaited);
}

static const char *
verb(const hp_flight_member *m, int many)
{
    if (m->stuck && m->stuck->left)
        return many ? "have failed in" : "has failed in";
    if (m->entry->state == HP_FLIGHT_ENDED)
        return many ? "were in" : "was in";
    return many ? "wait in" : "waits in";
}

static void
add_rank(hp_flight_story *story, const hp_flight_member *m)
{
    add(story, "%s", hp_say_rank(head_of(m)->rank, head_of(m)->host, head_of(m)->pid).text);
}

/* Of any communicator: "x" of 4 ranks. */
static void
add_ring(hp_flight_story *story, const hp_flight_member *m)
{
    const char *name = head_of(m)->name, *quote = name[0] ? "\"" : "";
    add(story, "%s%s%s%sof %d ranks", quote, name, quote, name[0] ? " " : "", head_of(m)->size);
}

/* --- what a rank does instead --- */

static void
add_place(hp_flight_story *story, const hp_flight_place *p, const hp_flight_member *m)
{
    int ended = m->entry->state == HP_FLIGHT_ENDED, in_call = p->splits || p->record;
    add(story, p->over && !p->splits ? " and failed" : ended || p->over ? " and was" : " and waits");
    if (p->splits)
        add(story, " in hoop_comm_split number %u", head_of(p->member)->split);
    else if (p->record) {
        add(story, " in ");
        hp_kind_is_message(p->record->call.kind) ? add_message(story, p->record) : add_operation(story, p->record);
    }
    if (p->member == m)
        return;
    add(story, "%s another communicator ", in_call ? " of" : " in");
    add_ring(story, p->member);
    add(story, ", as rank %d", head_of(p->member)->rank);
}

static void
add_instead(hp_flight_story *story, const hp_flight_rings *rings, const hp_flight_member *m, const hp_flight_place *p)
{
    const hp_flight_head *head = head_of(m);
    int count = m->entry->flight->count;
    uint64_t newest = count ? m->entry->flight->record[count - 1].number : 0;
    if (m->entry->state == HP_FLIGHT_STOPPED)
        add(story, "; its process is stopped");
    else if (p->member)
        add_place(story, p, m);
    else if (hp_flight_has_died(m, 0))
        add(story, ", and then its process ended");
    else if (head->called > newest)
        add(story, " and has called since, but no thread of it drives the communicator");
    else if (hp_flight_works_elsewhere(rings, m))
        add(story, " and is at work in another communicator");
    else
        add(story, " and has not called since");
}

static const hp_flight_record *
last_finished(const hp_flight_member *m)
{
    const hp_flight *f = m->entry->flight;
    for (int i = f->count - 1; i >= 0; i--)
        if (f->record[i].left && f->record[i].result == HOOP_SUCCESS && !hp_kind_is_message(f->record[i].call.kind))
            return &f->record[i];
    return NULL;
}

static void
add_deeds(hp_flight_story *story, const hp_flight_rings *rings, const hp_flight_member *m, const hp_flight_place *p)
{
    const hp_flight_record *finished = last_finished(m);
    const hp_flight *f = m->entry->flight;
    uint64_t before = !m->last && f->count ? f->record[f->count - 1].sequence : 0; /* only messages are left */
    if (finished) {
        add(story, " last finished ");
        add_operation(story, finished);
        add(story, " %.1f s ago", hp_flight_ago(m->entry, finished->left));
    } else if (before) {
        add(story, " last called operation %" PRIu64 " and then messages", before);
    } else {
        add(story, " has finished no operation");
    }
    add_instead(story, rings, m, p);
}

/* Who is at the end of the chain. */
static void
add_end(hp_flight_story *story, const hp_flight_rings *rings, const hp_flight_chain *c)
{
    if (c->hops > 1)
        add(story, "; a chain of %d such waits leads to ", c->hops);
    else
        add(story, "%s", c->ring == story->ring ? "; " : ", where ");
    add_rank(story, c->end);
    if (c->hops > 1 && c->ring != story->ring) {
        add(story, " of another communicator ");
        add_ring(story, c->end);
    }
    add(story, "%s", c->hops > 1 ? ", which" : "");
    add_deeds(story, rings, c->end, &c->last);
}

/* What `late` does instead, and for whom it waits. Returns 1 if it waits for itself in the end. */
static int
add_chain(hp_flight_story *story, const hp_flight_rings *rings, const hp_flight_member *late)
{
    hp_flight_chain c = hp_flight_follow(rings, story->ring, late);
    story->end = c.end;
    story->late = -1;
    for (int i = 0; i < story->ring->count; i++)
        if (story->ring->member[i].process == c.end->process)
            story->late = head_of(&story->ring->member[i])->rank;
    add_rank(story, late);
    add_deeds(story, rings, late, &c.first);
    if (c.circle)
        add(story, "; the waits form a circle: make these calls in the same order on all ranks");
    else if (c.hops > 0)
        add_end(story, rings, &c);
    return c.circle;
}

/* --- which ranks --- */

static int
waits(const hp_flight_member *m, uint64_t sequence)
{
    return m->stuck && m->stuck->sequence >= sequence;
}

static int
is_in(const hp_flight_member *m, uint64_t sequence)
{
    return m->stuck && m->stuck->sequence == sequence;
}

static int
is_beyond(const hp_flight_member *m, uint64_t sequence)
{
    return m->stuck && m->stuck->sequence > sequence;
}

/* The oldest operation in which a rank is stuck; NULL: there is none. */
static const hp_flight_member *
longest_stuck(const hp_flight_ring *ring)
{
    const hp_flight_member *found = NULL;
    for (int i = 0; i < ring->count; i++) {
        const hp_flight_member *m = &ring->member[i];
        if (m->stuck && (!found || m->stuck->sequence < found->stuck->sequence))
            found = m;
    }
    return found;
}

static void
add_missing(hp_flight_story *story)
{
    int missing = story->ring->size - story->ring->count, rank = 0;
    if (missing == 0)
        return;
    while (rank < story->ring->count && head_of(&story->ring->member[rank])->rank == rank)
        rank++;
    add(story,
        "; %d of %d ranks, first rank %d, left no recorder here: they left the communicator, are on other hosts, or "
        "have HOOP_RECORDER=0",
        missing, story->ring->size, rank);
}

/* --- the plots --- */

static int
has_called(const hp_flight_member *m, uint64_t sequence)
{
    return hp_flight_find(m->entry->flight, sequence) != NULL;
}

/* The call of the first rank that has called it. */
static const hp_call *
first_call(const hp_flight_ring *ring, uint64_t sequence)
{
    const hp_flight_member *first = hp_flight_first(ring, has_called, sequence);
    return &hp_flight_find(first->entry->flight, sequence)->call;
}

/* The first operation that a rank called otherwise than the first one of those that have; 0: none. */
static uint64_t
find_difference(const hp_flight_ring *ring, const hp_flight_member **other)
{
    uint64_t first = 0;
    for (int i = 1; i < ring->count; i++) {
        const hp_flight *f = ring->member[i].entry->flight;
        for (int k = 0; k < f->count && (!first || f->record[k].sequence < first); k++) {
            const hp_flight_record *r = &f->record[k];
            if (hp_kind_is_message(r->call.kind) || hp_call_equal(first_call(ring, r->sequence), &r->call))
                continue;
            first = r->sequence;
            *other = &ring->member[i];
        }
    }
    return first;
}

static void
tell_difference(hp_flight_story *story, const hp_flight_member *other)
{
    char a[128], b[128];
    uint64_t n = story->difference;
    const hp_flight_member *first = hp_flight_first(story->ring, has_called, n);
    story->plot = HP_FLIGHT_DIFFERENCE;
    const hp_call *call = first_call(story->ring, n), *others = &hp_flight_find(other->entry->flight, n)->call;
    add(story, "as operation %" PRIu64 " rank %d called %s, and ", n, head_of(first)->rank,
        hp_call_print(call, a, sizeof(a)));
    add_rank(story, other);
    add(story, " called %s%s", hp_call_print(others, b, sizeof(b)), hp_call_other_counts(call, others));
}

static void
tell_split(hp_flight_story *story, const hp_flight_rings *rings, const hp_flight_member *splitter,
           const hp_flight_member *stuck)
{
    uint32_t number = head_of(splitter)->split;
    const hp_flight_member *late = hp_flight_first(story->ring, hp_flight_has_not_split, number);
    int over = splitter->entry->state == HP_FLIGHT_ENDED || head_of(splitter)->error_code;
    int many = add_ranks(story, hp_flight_splits, 0) > 1;
    story->plot = HP_FLIGHT_SPLIT;
    add(story, " %s hoop_comm_split number %u, called %.1f s ago",
        over   ? (many ? "were in" : "was in")
        : many ? "wait in"
               : "waits in",
        number, hp_flight_ago(splitter->entry, head_of(splitter)->split_at));
    if (stuck) {
        add(story, ", and ");
        many = add_ranks(story, waits, stuck->stuck->sequence) > 1;
        add(story, " %s ", verb(stuck, many));
        add_operation(story, stuck->stuck);
    } else if (late) {
        add(story, "; ");
        story->plot = add_chain(story, rings, late) ? HP_FLIGHT_CROSSED : HP_FLIGHT_SPLIT;
    }
}

static void
tell_late(hp_flight_story *story, const hp_flight_rings *rings, const hp_flight_member *stuck)
{
    uint64_t n = stuck->stuck->sequence;
    int many = add_ranks(story, waits, n) > 1;
    add(story, " %s ", verb(stuck, many));
    add_operation(story, stuck->stuck);
    add(story, "; ");
    int behind = 0;
    for (int i = 0; i < story->ring->count; i++)
        behind += hp_flight_is_behind(&story->ring->member[i], n);
    if (behind > 1) {
        add_ranks(story, hp_flight_is_behind, n);
        add(story, " have not called it: ");
    }
    int circle = add_chain(story, rings, hp_flight_first(story->ring, hp_flight_is_behind, n));
    story->plot = circle ? HP_FLIGHT_CROSSED : HP_FLIGHT_LATE;
}

/* The rank of the ring that it waits for; -1: none. */
static int
awaited_by(const hp_flight_member *m, const hp_flight_ring *ring)
{
    const hp_flight_record *r = m->stuck;
    int rank = r && hp_wait_is_for_rank(r->wait) ? r->awaited : -1;
    return rank < ring->size ? rank : -1;
}

/* One that waits for a rank without a recorder, for its data if there is a choice; NULL: there is none. */
static const hp_flight_member *
waits_for_missing(const hp_flight_ring *ring)
{
    const hp_flight_member *found = NULL;
    for (int i = 0; i < ring->count; i++) {
        const hp_flight_member *m = &ring->member[i];
        int rank = awaited_by(m, ring);
        if (rank < 0 || hp_flight_first(ring, hp_flight_has_rank, (uint64_t)rank))
            continue;
        if (!found || (found->stuck->wait == HP_WAIT_LINK && m->stuck->wait == HP_WAIT_PEER))
            found = m;
    }
    return found;
}

/* From the one that waits to the one that it waits for, and so on: the last one in this operation, or any of a circle. */
static const hp_flight_member *
end_of_chain(const hp_flight_ring *ring, const hp_flight_member *m)
{
    uint64_t n = m->stuck->sequence;
    for (int i = 0; i < ring->count; i++) {
        int rank = awaited_by(m, ring);
        const hp_flight_member *next = rank < 0 ? NULL : hp_flight_first(ring, hp_flight_has_rank, (uint64_t)rank);
        if (!next || !is_in(next, n) || (awaited_by(next, ring) < 0 && next->stuck->wait != HP_WAIT_STREAM))
            break;
        m = next;
    }
    return m;
}

/* For whom a rank waits: one that left no recorder, if there is a choice, or else the one at the end of the chain. */
static void
add_wait(hp_flight_story *story, const hp_flight_member *stuck)
{
    const hp_flight_member *missing = waits_for_missing(story->ring);
    const hp_flight_member *m = missing ? missing : end_of_chain(story->ring, stuck);
    int rank = awaited_by(m, story->ring);
    if (missing) {
        story->late = rank;
        add(story, "; rank %d waits for rank %d, which left no recorder", head_of(m)->rank, rank);
    } else if (rank >= 0) {
        add(story, "; rank %d waits for rank %d %s", head_of(m)->rank, rank,
            m->stuck->wait == HP_WAIT_LINK ? "to take data" : "to send data");
    } else if (m->stuck->wait == HP_WAIT_STREAM) {
        add(story, "; rank %d waits for its CUDA stream", head_of(m)->rank);
    }
}

/*
 * All that left a recorder are in the operation, or a few operations further on: then one whose process does not run, or
 * the one that most wait for.
 */
static void
tell_inside(hp_flight_story *story, const hp_flight_member *stuck)
{
    const hp_flight_member *gone = hp_flight_find_gone(story->ring);
    uint64_t n = stuck->stuck->sequence;
    int apart = hp_flight_first(story->ring, is_beyond, n) != NULL;
    int over = gone && gone->stuck && (apart || hp_flight_has_died(gone, 0));
    story->plot = HP_FLIGHT_INSIDE;
    int many = add_ranks(story, is_in, n) > 1;
    add(story, " %s ", over ? (many ? "were in" : "was in") : verb(stuck, many));
    add_operation(story, stuck->stuck);
    add(story, ", called %.1f s ago", hp_flight_ago(stuck->entry, stuck->stuck->entered));
    if (apart) {
        add(story, ", and ");
        add_ranks(story, is_beyond, n);
        add(story, " in a later one");
    }
    if (gone) {
        story->end = gone;
        story->late = head_of(gone)->rank;
        add(story, gone->stuck && (many || apart) ? "; of these, the process of " : "; the process of ");
        add_rank(story, gone);
        add(story, gone->entry->state == HP_FLIGHT_STOPPED ? " is stopped" : " has ended");
    }
    if (story->late < 0)
        add_wait(story, stuck);
}

static void
tell_message(hp_flight_story *story, const hp_flight_rings *rings, const hp_flight_member *m)
{
    const hp_flight_record *r = m->message;
    int rank = hp_flight_peer_of(r);
    const hp_flight_member *peer = rank < 0 ? NULL : hp_flight_first(story->ring, hp_flight_has_rank, (uint64_t)rank);
    story->plot = HP_FLIGHT_MESSAGES; /* so far */
    story->late = peer == m ? -1 : rank;
    add_rank(story, m);
    add(story, " %s ", r->left ? "has failed in" : m->entry->state == HP_FLIGHT_ENDED ? "was in" : "waits in");
    add_message(story, r);
    add(story, ", called %.1f s ago", hp_flight_ago(m->entry, r->entered));
    if (!peer || peer == m)
        return;
    add(story, "; ");
    story->plot = add_chain(story, rings, peer) ? HP_FLIGHT_CROSSED : HP_FLIGHT_MESSAGES;
}

static int
has_message(const hp_flight_member *m, uint64_t unused)
{
    (void)unused;
    return m->message != NULL;
}

/* --- all of them --- */

static void
tell_ring(const hp_flight_rings *rings, const hp_flight_ring *ring, hp_flight_story *story)
{
    const hp_flight_member *other = NULL, *stuck = longest_stuck(ring);
    const hp_flight_member *splitter = hp_flight_first(ring, hp_flight_splits, 0),
                           *waiter = hp_flight_first(ring, has_message, 0);
    *story = (hp_flight_story){.plot = HP_FLIGHT_WELL, .ring = ring, .late = -1};
    if (hp_flight_ring_name(ring)[0])
        add(story, "\"%s\": ", hp_flight_ring_name(ring));
    story->difference = find_difference(ring, &other);
    if (story->difference)
        tell_difference(story, other);
    else if (ring->at_work)
        story->moves = 1;
    else if (splitter)
        tell_split(story, rings, splitter, stuck);
    else if (stuck && hp_flight_first(ring, hp_flight_is_behind, stuck->stuck->sequence))
        tell_late(story, rings, stuck);
    else if (stuck)
        tell_inside(story, stuck);
    else if (waiter)
        tell_message(story, rings, waiter);
    if (story->plot != HP_FLIGHT_WELL)
        add_missing(story);
    else
        story->text[0] = '\0';
}

void
hp_flight_tell(const hp_flight_rings *rings, hp_flight_story *story)
{
    hp_flight_story one;
    int moving = 0;
    *story = (hp_flight_story){.plot = HP_FLIGHT_WELL, .late = -1};
    for (int i = 0; i < rings->count; i++) {
        if (!rings->ring[i].counts)
            continue;
        tell_ring(rings, &rings->ring[i], &one);
        moving |= one.moves;
        if (!story->ring || one.plot > story->plot)
            *story = one;
    }
    story->moves = moving;
    story->others = rings->others;
    if (!story->ring)
        add(story, "there is no recorder");
    else if (story->plot == HP_FLIGHT_WELL)
        add(story, moving ? "the ranks go on: they have called, or moved data, in the last second"
                          : "no rank waits in a call");
}
