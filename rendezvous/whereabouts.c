/* SPDX-License-Identifier: MIT */
/* whereabouts: see whereabouts.h. The list is sorted once, and every question is a search in it. */
#include "rendezvous/whereabouts.h"

#include "base/clock.h"
#include "base/mem.h"
#include "rendezvous/rings.h"

#include <stdio.h>
#include <stdlib.h>

int
hp_wait_place_same(const hp_wait_place *a, const hp_wait_place *b)
{
    return a->ring == b->ring && a->split == b->split && a->rank == b->rank;
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

/* A rank whose connections are being made is in hoop. Its process is asked for once, as a rank of the whole job. */
static void
add_rank(hp_whereabouts *w, const hp_roster *r, int rank, uint64_t now)
{
    const hp_member *who = &r->ring.members[rank];
    const hp_events *owner = w->job->owner;
    uint64_t heard = r->state == HP_ROSTER_LINKING ? now : r->witnesses[rank].heard;
    hp_process process = r->world ? owner->process(owner->arg, who) : HP_PROCESS_UNKNOWN;
    add(w, &(hp_stay){.who = who, .since = HP_NEVER, .heard = heard, .process = process});
}

static void
add_waits(hp_whereabouts *w, const hp_roster *r)
{
    int still = r->in_op_n && last_report(r) >= r->moved + silence(r);
    for (int i = 0; i < r->ring.size && is_up(w, r); i++) {
        const hp_witness *rank = &r->witnesses[i];
        const hp_waiting *waiting = &rank->waiting;
        uint64_t since = waiting->since < rank->waiting_at ? rank->waiting_at - waiting->since : 0;
        if (still && rank->in_op && is_fresh(w, r, rank->last_seen))
            add(w, &(hp_stay){&r->ring.members[i], .place = {.ring = r, .rank = -1}, .since = r->moved});
        if (hp_blame_awaits_message(rank) && !rank->left && is_fresh(w, r, rank->waiting_at))
            add(w, &(hp_stay){&r->ring.members[i], .place = {.ring = r, .rank = i}, .since = since});
    }
}

/* A rank is the member of the parent that it says it is, whatever else its JOIN says of its process. */
static void
add_split(hp_whereabouts *w, const hp_join_group *m)
{
    const hp_wait_place place = {.ring = hp_rings_find(w->job->rosters, m->parent), .split = m, .rank = -1};
    if (!place.ring || place.ring->ring.size != m->size || m->failure.code || m->joined_n == m->size)
        return;
    uint64_t still = silence(place.ring);
    for (int i = 0; i < m->joined_n; i++) {
        uint64_t since = m->joined[i].at;
        int just_came = w->heard < since + still && since <= w->heard + still;
        add(w, &(hp_stay){&place.ring->ring.members[m->joined[i].member.rank], place, since, .just_came = just_came});
    }
}

static int
compare_processes(const hp_member *a, const hp_member *b)
{
    if (a->host_id != b->host_id)
        return a->host_id < b->host_id ? -1 : 1;
    return a->pid < b->pid ? -1 : a->pid > b->pid;
}

static int
compare(const void *one, const void *other)
{
    const hp_stay *a = one, *b = other;
    int process = compare_processes(a->who, b->who);
    if (process)
        return process;
    if (a->since != b->since)
        return a->since < b->since ? -1 : 1;
    return a->number < b->number ? -1 : 1;
}

hp_whereabouts
hp_whereabouts_take(const hp_job *job, const hp_roster *failed, uint64_t now)
{
    hp_whereabouts w = {.job = job, .failed = failed};
    size_t most = 0;
    for (const hp_roster *r = job->rosters; r; r = r->next) {
        uint64_t heard = is_up(&w, r) ? last_word(r) : 0;
        w.heard = heard > w.heard ? heard : w.heard;
        most += 3 * (size_t)r->ring.size;
    }
    for (const hp_join_group *m = job->join_groups; m; m = m->next)
        most += (size_t)m->joined_n;
    w.stays = hp_alloc(most, sizeof(*w.stays));
    for (const hp_roster *r = job->rosters; r && w.stays; r = r->next) {
        add_waits(&w, r);
        for (int rank = 0; rank < r->ring.size; rank++)
            add_rank(&w, r, rank, now);
    }
    for (const hp_join_group *m = job->join_groups; m && w.stays; m = m->next)
        add_split(&w, m);
    if (w.stays)
        qsort(w.stays, w.n, sizeof(*w.stays), compare);
    return w;
}

void
hp_whereabouts_free(hp_whereabouts *w)
{
    free(w->stays);
    w->stays = NULL;
    w->n = 0;
}

/* --- questions --- */

/* The first entry of the process, or of the next one. */
static size_t
first_of(const hp_whereabouts *w, const hp_member *who)
{
    size_t from = 0, to = w->n;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (compare_processes(w->stays[middle].who, who) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

const hp_stay *
hp_whereabouts_find(const hp_whereabouts *w, const hp_member *who, const hp_wait_place *here, int settled)
{
    for (size_t i = first_of(w, who); i < w->n && hp_member_same(w->stays[i].who, who); i++) {
        const hp_stay *stay = &w->stays[i];
        if (stay->place.ring && !hp_wait_place_same(&stay->place, here) && !(settled && stay->just_came))
            return stay;
    }
    return NULL;
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
        snprintf(out, HP_WHERE_TEXT, "in hoop_comm_split %u%s", p->split->split, of);
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
