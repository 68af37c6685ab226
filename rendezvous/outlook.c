/* SPDX-License-Identifier: MIT */
/* outlook: see outlook.h. */
#include "rendezvous/outlook.h"

#include "rendezvous/rings.h"

uint64_t
hp_outlook_silence(const hp_roster *r)
{
    return HP_SILENT_HEARTBEATS * r->heartbeat;
}

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
is_up(const hp_outlook *v, const hp_roster *r)
{
    return r->state == HP_ROSTER_RUNNING || r == v->failed;
}

hp_outlook
hp_outlook_of(const hp_job *job, const hp_roster *failed)
{
    hp_outlook v = {.job = job, .failed = failed};
    for (const hp_roster *r = job->rosters; r; r = r->next) {
        uint64_t heard = is_up(&v, r) ? last_word(r) : 0;
        v.heard = heard > v.heard ? heard : v.heard;
    }
    return v;
}

/* A process that is silent may be stopped. */
static int
is_fresh(const hp_outlook *v, const hp_roster *r, uint64_t seen)
{
    return seen + hp_outlook_silence(r) >= v->heard;
}

void
hp_outlook_ring(const hp_outlook *v, const hp_roster *r, hp_outlook_see *see, void *arg)
{
    int still = r->in_op_n && last_report(r) >= r->moved + hp_outlook_silence(r);
    for (int i = 0; i < r->ring.size; i++) {
        const hp_witness *w = &r->witnesses[i];
        const hp_wait_place operation = {.ring = r, .rank = -1}, message = {.ring = r, .rank = i};
        uint64_t since = w->waiting.since < w->waiting_at ? w->waiting_at - w->waiting.since : 0;
        if (still && w->in_op && is_fresh(v, r, w->last_seen))
            see(arg, &r->ring.members[i], &operation, r->moved);
        if (hp_blame_awaits_message(w) && !w->left && is_fresh(v, r, w->waiting_at))
            see(arg, &r->ring.members[i], &message, since);
    }
}

/* A rank is the member of the parent that it says it is, whatever else its JOIN says of its process. */
static void
see_split(const hp_outlook *v, const hp_join_group *m, hp_outlook_see *see, void *arg)
{
    const hp_wait_place split = {.ring = hp_rings_find(v->job->rosters, m->parent), .split = m, .rank = -1};
    if (!split.ring || split.ring->ring.size != m->size || m->failure.code || m->joined_n == m->size)
        return;
    for (int i = 0; i < m->joined_n; i++)
        see(arg, &split.ring->ring.members[m->joined[i].member.rank], &split, m->joined[i].at);
}

void
hp_outlook_all(const hp_outlook *v, hp_outlook_see *see, void *arg)
{
    for (const hp_roster *r = v->job->rosters; r; r = r->next)
        if (is_up(v, r))
            hp_outlook_ring(v, r, see, arg);
    for (const hp_join_group *m = v->job->join_groups; m; m = m->next)
        see_split(v, m, see, arg);
}

int
hp_outlook_just_came(const hp_outlook *v, const hp_wait_place *place, uint64_t since)
{
    uint64_t still = hp_outlook_silence(place->ring);
    return place->split && v->heard < since + still && since <= v->heard + still;
}
