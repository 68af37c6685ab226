/* SPDX-License-Identifier: MIT */
/* whereabouts: see whereabouts.h. The members of the ring are sorted by process once, so that no rank is searched for long. */
#include "rendezvous/whereabouts.h"

#include "base/mem.h"
#include "rendezvous/wait_chain.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct process_index {
    const hp_roster *ring;
    const hp_member **sorted; /* the members of the ring */
    hp_whereabouts *where;    /* by rank */
} process_index;

static int
compare(const hp_member *a, const hp_member *b)
{
    if (a->host_id != b->host_id)
        return a->host_id < b->host_id ? -1 : 1;
    return a->pid < b->pid ? -1 : a->pid > b->pid;
}

static int
by_process(const void *one, const void *other)
{
    return compare(*(const hp_member *const *)one, *(const hp_member *const *)other);
}

/* What is known of this process; NULL: it is not in the ring. */
static hp_whereabouts *
find(const process_index *l, const hp_member *who)
{
    const hp_member *const *at = bsearch(&who, l->sorted, (size_t)l->ring->ring.size, sizeof(*l->sorted), by_process);
    return at ? &l->where[(*at)->rank] : NULL;
}

static void
note_place(void *arg, const hp_member *who, const hp_wait_place *place, uint64_t since)
{
    const process_index *l = arg;
    hp_whereabouts *w = find(l, who);
    int here = place->ring == l->ring && !place->split && place->rank < 0;
    if (!w || here || (w->place.ring && since >= w->since))
        return;
    w->place = *place;
    w->since = since;
}

/* A rank whose connections are being made is in hoop. */
static void
note_words(const process_index *l, const hp_job *job, const hp_roster *r, uint64_t now)
{
    for (int i = 0; i < r->ring.size; i++) {
        hp_whereabouts *w = find(l, &r->ring.members[i]);
        uint64_t heard = r->state == HP_ROSTER_LINKING ? now : r->witnesses[i].heard;
        if (!w)
            continue;
        if (heard > w->heard)
            w->heard = heard;
        if (r->world)
            w->stopped = job->owner->process(job->owner->arg, &r->ring.members[i]) == HP_PROCESS_STOPPED;
    }
}

hp_whereabouts *
hp_whereabouts_find(const hp_job *job, const hp_roster *ring, uint64_t now)
{
    size_t n = (size_t)ring->ring.size;
    process_index l = {.ring = ring, .sorted = hp_alloc(n, sizeof(*l.sorted)), .where = hp_alloc(n, sizeof(*l.where))};
    for (size_t i = 0; l.sorted && l.where && i < n; i++) {
        l.sorted[i] = &ring->ring.members[i];
        l.where[i].place.rank = -1;
    }
    if (l.sorted && l.where) {
        qsort(l.sorted, n, sizeof(*l.sorted), by_process);
        hp_wait_chain_each(job, note_place, &l);
        for (const hp_roster *r = job->rosters; r; r = r->next)
            note_words(&l, job, r, now);
    } else {
        free(l.where);
        l.where = NULL;
    }
    free(l.sorted);
    return l.where;
}

const char *
hp_whereabouts_print(const hp_whereabouts *where, const hp_roster *ring, char out[HP_WHERE_TEXT])
{
    const hp_wait_place *p = &where->place;
    char call[96], name[HP_RING_TEXT], of[HP_RING_TEXT + 4] = "";
    hp_title_ring(p->ring->label, p->ring->name, name);
    if (p->ring != ring)
        snprintf(of, sizeof(of), " of %s", name);
    if (p->split)
        snprintf(out, HP_WHERE_TEXT, "in hoop_comm_split %u%s", p->split->split, of);
    else if (p->rank >= 0)
        snprintf(out, HP_WHERE_TEXT, "%s%s",
                 hp_call_print(&p->ring->witnesses[p->rank].waiting.call, call, sizeof(call)), of);
    else
        snprintf(out, HP_WHERE_TEXT, "waits in %s", name);
    return out;
}

static const char *
print_split(const hp_join_group *m, char out[HP_WHERE_TEXT])
{
    char ranks[64];
    int left = m->size - m->joined_n;
    snprintf(out, HP_WHERE_TEXT, "rank%s %s", left == 1 ? "" : "s",
             hp_rank_list(m->has_joined, m->size, 0, ranks, sizeof(ranks)));
    return out;
}

const char *
hp_whereabouts_waits_for(const hp_whereabouts *where, const hp_roster *ring, char out[HP_WHERE_TEXT])
{
    const hp_wait_place *p = &where->place;
    out[0] = 0;
    if (p->ring != ring)
        return out;
    if (p->split)
        return print_split(p->split, out);
    const hp_waiting *message = &ring->witnesses[p->rank].waiting;
    if (message->peer < 0)
        snprintf(out, HP_WHERE_TEXT, "its %s", message->what == HP_WAIT_STREAM ? "stream" : "device");
    else
        snprintf(out, HP_WHERE_TEXT, message->what == HP_WAIT_LINK ? "rank %d to read" : "data from rank %d",
                 message->peer);
    return out;
}
