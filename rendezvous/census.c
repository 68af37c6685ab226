/* SPDX-License-Identifier: MIT */
/* census: see census.h. */
#include "rendezvous/census.h"

#include "base/mem.h"

#include <stdlib.h>

/* --- the processes --- */

typedef struct process_key {
    uint64_t host_id;
    uint32_t pid;
} process_key;

static int
compare(uint64_t host, uint32_t pid, uint64_t other_host, uint32_t other_pid)
{
    if (host != other_host)
        return host < other_host ? -1 : 1;
    return pid < other_pid ? -1 : pid > other_pid;
}

static int
by_process(const void *one, const void *other)
{
    const process_key *a = one, *b = other;
    return compare(a->host_id, a->pid, b->host_id, b->pid);
}

static int
is_of(const void *who, const void *known)
{
    const hp_member *a = who;
    const hp_known *b = known;
    return compare(a->host_id, a->pid, b->host_id, b->pid);
}

static hp_known *
find(const hp_census *c, const hp_member *who)
{
    return c->known ? bsearch(who, c->known, c->n, sizeof(*c->known), is_of) : NULL;
}

/* The processes of all ranks in order, some of them more than once. NULL: out of memory. */
static process_key *
list_processes(const hp_job *job, size_t *n)
{
    size_t i = 0;
    *n = 0;
    for (const hp_roster *r = job->rosters; r; r = r->next)
        *n += (size_t)r->ring.size;
    process_key *keys = hp_alloc(*n, sizeof(*keys));
    for (const hp_roster *r = job->rosters; r && keys; r = r->next)
        for (int rank = 0; rank < r->ring.size; rank++)
            keys[i++] = (process_key){r->ring.members[rank].host_id, r->ring.members[rank].pid};
    if (keys)
        qsort(keys, *n, sizeof(*keys), by_process);
    return keys;
}

/* Leaves each process once. Returns how many there are. */
static size_t
leave_one_each(process_key *keys, size_t n)
{
    size_t left = 0;
    for (size_t i = 0; i < n; i++)
        if (!left || by_process(&keys[left - 1], &keys[i]) != 0)
            keys[left++] = keys[i];
    return left;
}

static void
list_known(hp_census *c)
{
    size_t n;
    process_key *keys = list_processes(c->outlook.job, &n);
    if (!keys)
        return;
    c->n = leave_one_each(keys, n);
    c->known = hp_alloc(c->n, sizeof(*c->known));
    for (size_t i = 0; i < c->n && c->known; i++)
        c->known[i] = (hp_known){.host_id = keys[i].host_id, .pid = keys[i].pid};
    free(keys);
}

/* --- what is known of them --- */

static void
note_place(void *arg, const hp_member *who, const hp_wait_place *place, uint64_t since)
{
    const hp_census *c = arg;
    hp_known *known = find(c, who);
    hp_stays_note(&known->stays, place, since);
    if (!hp_outlook_just_came(&c->outlook, place, since))
        hp_stays_note(&known->settled, place, since);
}

/* A rank whose connections are being made is in hoop. */
static void
note_words(const hp_census *c, const hp_roster *r, uint64_t now)
{
    const hp_events *owner = c->outlook.job->owner;
    for (int i = 0; i < r->ring.size; i++) {
        hp_known *known = find(c, &r->ring.members[i]);
        uint64_t heard = r->state == HP_ROSTER_LINKING ? now : r->witnesses[i].heard;
        known->heard = heard > known->heard ? heard : known->heard;
        if (r->world)
            known->stopped = owner->process(owner->arg, &r->ring.members[i]) == HP_PROCESS_STOPPED;
    }
}

hp_census
hp_census_look(const hp_job *job, const hp_roster *failed)
{
    return (hp_census){.outlook = hp_outlook_of(job, failed)};
}

hp_census
hp_census_take(const hp_job *job, const hp_roster *failed, uint64_t now)
{
    hp_census c = hp_census_look(job, failed);
    list_known(&c);
    if (c.known) {
        hp_outlook_all(&c.outlook, note_place, &c);
        for (const hp_roster *r = job->rosters; r; r = r->next)
            note_words(&c, r, now);
    }
    return c;
}

void
hp_census_free(hp_census *c)
{
    free(c->known);
    c->known = NULL;
}

const hp_known *
hp_census_find(const hp_census *c, const hp_member *who)
{
    return find(c, who);
}

/* --- without a list --- */

typedef struct process_search {
    const hp_outlook *outlook;
    const hp_member *who;
    hp_stays found;
} process_search;

static void
match(void *arg, const hp_member *who, const hp_wait_place *place, uint64_t since)
{
    process_search *s = arg;
    if (hp_member_same(who, s->who) && !hp_outlook_just_came(s->outlook, place, since))
        hp_stays_note(&s->found, place, since);
}

hp_stays
hp_census_stays(const hp_census *c, const hp_member *who)
{
    const hp_known *known = find(c, who);
    process_search s = {.outlook = &c->outlook, .who = who};
    if (known)
        return known->settled;
    hp_outlook_all(&c->outlook, match, &s);
    return s.found;
}
