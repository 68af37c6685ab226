/* SPDX-License-Identifier: MIT */
/* whereabouts: see whereabouts.h. The list is sorted once, and every question is a search in it. */
#include "rendezvous/whereabouts.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>

/* --- places --- */

int
hp_wait_place_same(const hp_wait_place *a, const hp_wait_place *b)
{
    return a->ring == b->ring && a->split == b->split && a->rank == b->rank;
}

hp_blame
hp_wait_place_blame(const hp_wait_place *p)
{
    const hp_roster *r = p->ring;
    hp_blame blame = {.guilt = HP_GUILT_ABSENT, .other = p->rank, .waiting = 1};
    if (hp_wait_place_is_operation(p))
        return hp_blame_find(r->witnesses, r->ring.size, HP_SILENT_HEARTBEATS * r->heartbeat);
    if (p->split) {
        while (hp_join_group_has(p->split, blame.rank) && blame.rank < r->ring.size - 1)
            blame.rank++;
        blame.waiting = p->split->joined_n;
    } else if (hp_wait_place_message(p)->awaited.rank >= 0) {
        blame.rank = hp_wait_place_message(p)->awaited.rank;
    } else {
        blame.rank = p->rank;
        blame.guilt = HP_GUILT_SELF;
    }
    if (r->witnesses[blame.rank].left)
        blame.guilt = HP_GUILT_LEFT;
    return blame;
}

/* Where the edge leads if none of the ranks is stopped. It ends at one that is nowhere in hoop, or that has done its part. */
static hp_wait_edge
edge_of(const hp_wait_place *p, const hp_blame *blame, int ring)
{
    const hp_witness *w = blame->guilt == HP_GUILT_ABSENT ? &p->ring->witnesses[blame->rank] : NULL;
    hp_wait_edge e = {.whom = blame->rank, .is_last = !w || blame->rank == p->rank, .ring = ring};
    e.kind = p->split ? HP_IN_SPLIT : p->rank < 0 ? HP_IN_OPERATION : HP_IN_MESSAGE;
    e.number = p->split ? p->split->split : p->rank < 0 ? blame->sequence : (uint64_t)p->rank;
    if (w && hp_wait_place_is_operation(p))
        e.is_last = w->completed >= blame->sequence || hp_blame_awaits_stream(w);
    return e;
}

/* --- what is heard of a ring --- */

static uint64_t
last_report(const hp_roster *r)
{
    uint64_t heard = 0;
    for (int i = 0; i < r->ring.size; i++)
        if (r->witnesses[i].in_op && r->witnesses[i].last_seen > heard)
            heard = r->witnesses[i].last_seen;
    return heard;
}

static uint64_t
last_word(const hp_roster *r)
{
    uint64_t heard = last_report(r);
    for (int i = 0; i < r->ring.size; i++)
        if (r->witnesses[i].waiting.call.kind && r->witnesses[i].waiting_at > heard)
            heard = r->witnesses[i].waiting_at;
    return heard;
}

static int
is_up(const hp_whereabouts *w, const hp_roster *r)
{
    return r->state == HP_ROSTER_RUNNING || r == w->failed;
}

static uint64_t
silence(const hp_roster *r)
{
    return HP_SILENT_HEARTBEATS * r->heartbeat;
}

/* A process that is silent may be stopped. */
static int
is_fresh(const hp_whereabouts *w, const hp_roster *r, uint64_t seen)
{
    return seen + silence(r) >= w->heard;
}

/* --- the list --- */

static void
add(hp_whereabouts *w, const hp_stay *stay)
{
    w->stays[w->n] = *stay;
    w->stays[w->n].number = w->n;
    w->n++;
}

/* A rank whose connections are being made is in hoop. Its process is asked for once, not for each split. */
static void
add_rank(hp_whereabouts *w, const hp_roster *r, int rank, uint64_t now)
{
    const hp_member *who = &r->ring.members[rank];
    const hp_starter *starter = &w->job->owner->starter;
    uint64_t heard = r->state == HP_ROSTER_LINKING ? now : r->witnesses[rank].heard;
    int asked = starter->process && hp_roster_is_whole(r);
    hp_process process = asked ? starter->process(starter->arg, who->rank, who->pid) : HP_PROCESS_UNKNOWN;
    add(w, &(hp_stay){.who = who, .since = HP_NEVER, .heard = heard, .process = process});
}

/* age: the greater the younger the ring is. */
static void
add_waits(hp_whereabouts *w, const hp_roster *r, int age)
{
    const hp_wait_place operation = {.ring = r, .rank = -1};
    int still = is_up(w, r) && r->in_op_n && last_report(r) >= r->moved + silence(r);
    hp_blame blame = still ? hp_wait_place_blame(&operation) : (hp_blame){.rank = -1};
    const hp_wait_edge waits = edge_of(&operation, &blame, age);
    for (int i = 0; i < r->ring.size && is_up(w, r); i++) {
        const hp_witness *rank = &r->witnesses[i];
        const hp_waiting *waiting = &rank->waiting;
        uint64_t since = waiting->since < rank->waiting_at ? rank->waiting_at - waiting->since : 0;
        if (still && rank->in_op && is_fresh(w, r, rank->last_seen))
            add(w, &(hp_stay){&r->ring.members[i], operation, waits, .since = r->moved});
        if (hp_blame_awaits_message(rank) && !rank->left && is_fresh(w, r, rank->waiting_at)) {
            const hp_wait_place message = {.ring = r, .rank = i};
            blame = hp_wait_place_blame(&message);
            add(w, &(hp_stay){&r->ring.members[i], message, edge_of(&message, &blame, age), .since = since});
        }
    }
}

/* A rank is the member of the parent that it says it is, whatever else its JOIN says of its process. */
static void
add_split(hp_whereabouts *w, const hp_join_group *m)
{
    const hp_wait_place place = {.ring = hp_job_ring(w->job->rosters, m->parent), .split = m, .rank = -1};
    if (!place.ring || place.ring->ring.size != m->size || m->failure.code || m->joined_n == m->size)
        return;
    uint64_t still = silence(place.ring);
    hp_blame blame = hp_wait_place_blame(&place);
    int age = 1;
    for (const hp_roster *r = place.ring->next; r; r = r->next)
        age++;
    const hp_wait_edge waits = edge_of(&place, &blame, age);
    for (int i = 0; i < m->joined_n; i++) {
        uint64_t since = m->joined[i].at;
        int just_came = w->heard < since + still && since <= w->heard + still;
        const hp_member *who = &place.ring->ring.members[m->joined[i].member.rank];
        add(w, &(hp_stay){who, place, waits, since, .just_came = just_came});
    }
}

static int
compare(const void *one, const void *other)
{
    const hp_stay *a = one, *b = other;
    int process = hp_member_order(a->who, b->who);
    if (process)
        return process;
    if (a->since != b->since)
        return a->since < b->since ? -1 : 1;
    return a->number < b->number ? -1 : 1;
}

/* The first entry of the process, or of the next one. */
static size_t
first_of(const hp_whereabouts *w, const hp_member *who)
{
    size_t from = 0, to = w->n;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (hp_member_order(w->stays[middle].who, who) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

hp_stay
hp_whereabouts_known(const hp_whereabouts *w, const hp_member *who)
{
    hp_stay known = {.who = who};
    for (size_t i = first_of(w, who); i < w->n && hp_member_same(w->stays[i].who, who); i++) {
        known.heard = w->stays[i].heard > known.heard ? w->stays[i].heard : known.heard;
        known.process = w->stays[i].process > known.process ? w->stays[i].process : known.process;
    }
    return known;
}

/* The edge with the number of the process that it awaits instead of its rank. */
static hp_wait_edge
resolve(const hp_whereabouts *w, const hp_wait_place *place, hp_wait_edge edge)
{
    if (edge.whom < 0)
        return edge;
    const hp_member *whom = &place->ring->ring.members[edge.whom];
    edge.is_last |= hp_whereabouts_known(w, whom).process == HP_PROCESS_STOPPED;
    edge.whom = w->stays[first_of(w, whom)].index;
    return edge;
}

/* Makes the graph of the longest stays. */
static void
make_graph(hp_whereabouts *w)
{
    int count = 0;
    for (size_t i = 0; i < w->n; i++) {
        count += i == 0 || hp_member_order(w->stays[i - 1].who, w->stays[i].who) != 0;
        w->stays[i].index = count - 1;
    }
    w->waits = count ? hp_alloc((size_t)count, sizeof(*w->waits)) : NULL;
    for (int i = 0; i < count && w->waits; i++)
        w->waits[i].whom = -1;
    for (size_t i = 0; i < w->n && w->waits; i++) {
        const hp_stay *stay = &w->stays[i];
        hp_wait_edge *known = &w->waits[stay->index], edge = stay->wait;
        if (!stay->place.ring || stay->just_came || known->at)
            continue;
        edge = resolve(w, &stay->place, edge);
        edge.at = stay;
        edge.since = stay->since;
        hp_wait_graph_note(known, &edge, 0);
    }
}

hp_whereabouts
hp_whereabouts_take(const hp_job *job, const hp_roster *failed, uint64_t now)
{
    hp_whereabouts w = {.job = job, .failed = failed};
    size_t most = 0;
    int age = 0;
    for (const hp_roster *r = job->rosters; r; r = r->next, age++) {
        uint64_t heard = is_up(&w, r) ? last_word(r) : 0;
        w.heard = heard > w.heard ? heard : w.heard;
        most += 3 * (size_t)r->ring.size;
    }
    for (const hp_join_group *m = job->join_groups; m; m = m->next)
        most += (size_t)m->joined_n;
    w.stays = hp_alloc(most, sizeof(*w.stays));
    for (const hp_roster *r = job->rosters; r && w.stays; r = r->next, age--) {
        add_waits(&w, r, age);
        for (int rank = 0; rank < r->ring.size; rank++)
            add_rank(&w, r, rank, now);
    }
    for (const hp_join_group *m = job->join_groups; m && w.stays; m = m->next)
        add_split(&w, m);
    if (w.n)
        qsort(w.stays, w.n, sizeof(*w.stays), compare);
    make_graph(&w);
    return w;
}

void
hp_whereabouts_free(hp_whereabouts *w)
{
    free(w->stays);
    free(w->waits);
    *w = (hp_whereabouts){0};
}

/* --- questions --- */

const hp_stay *
hp_whereabouts_find(const hp_whereabouts *w, const hp_member *who, const hp_wait_place *here)
{
    for (size_t i = first_of(w, who); i < w->n && hp_member_same(w->stays[i].who, who); i++) {
        const hp_stay *stay = &w->stays[i];
        if (stay->place.ring && !hp_wait_place_same(&stay->place, here))
            return stay;
    }
    return NULL;
}

hp_wait_finding
hp_whereabouts_follow(const hp_whereabouts *w, const hp_wait_place *from, const hp_blame *blame)
{
    hp_wait_edge edge = edge_of(from, blame, 0);
    if (!w->waits || edge.whom < 0 || (edge = resolve(w, from, edge)).is_last)
        return (hp_wait_finding){.waiter = -1};
    return hp_wait_graph_follow(w->waits, edge.whom);
}

hp_process
hp_whereabouts_process(const hp_whereabouts *w, const hp_member *who, uint64_t stalled)
{
    hp_process process = hp_whereabouts_known(w, who).process;
    return process == HP_PROCESS_RUNS && stalled < HP_SEC ? HP_PROCESS_UNKNOWN : process;
}

/* --- words --- */

const char *
hp_stay_print(const hp_stay *stay, const hp_roster *ring, char out[HP_WHERE_TEXT])
{
    const hp_wait_place *p = &stay->place;
    char call[96], of[HP_NOUN] = "";
    hp_noun name = hp_say_ring(p->ring->label, p->ring->name);
    if (p->ring != ring)
        snprintf(of, sizeof(of), " of %.150s", name.text);
    if (p->split)
        snprintf(out, HP_WHERE_TEXT, "in %s %u%s", hp_join_group_call(p->split), p->split->split, of);
    else if (p->rank >= 0)
        snprintf(out, HP_WHERE_TEXT, "%s%s",
                 hp_call_print(&p->ring->witnesses[p->rank].waiting.call, call, sizeof(call)), of);
    else
        snprintf(out, HP_WHERE_TEXT, "waits in %.150s", name.text);
    return out;
}

const char *
hp_stay_waits_for(const hp_stay *stay, const hp_roster *ring, char out[HP_WHERE_TEXT])
{
    const hp_wait_place *p = &stay->place;
    out[0] = 0;
    if (p->ring != ring)
        return out;
    if (p->split) {
        snprintf(out, HP_WHERE_TEXT, "%s", hp_say_ranks(p->split->has_joined, p->split->size, 0).text);
        return out;
    }
    const hp_waiting *message = &ring->witnesses[p->rank].waiting;
    if (message->awaited.rank < 0)
        snprintf(out, HP_WHERE_TEXT, "its %s", message->awaited.what == HP_WAIT_STREAM ? "stream" : "device");
    else
        snprintf(out, HP_WHERE_TEXT, message->awaited.what == HP_WAIT_LINK ? "rank %d to read" : "data from rank %d",
                 message->awaited.rank);
    return out;
}
