/* SPDX-License-Identifier: MIT */
/* whereabouts: see whereabouts.h. */
#include "rendezvous/whereabouts.h"

#include "base/mem.h"

#include <stdio.h>

hp_whereabouts *
hp_whereabouts_find(const hp_census *census, const hp_roster *ring)
{
    const hp_wait_place here = {.ring = ring, .rank = -1};
    hp_whereabouts *where = census->known ? hp_alloc((size_t)ring->ring.size, sizeof(*where)) : NULL;
    for (int i = 0; where && i < ring->ring.size; i++) {
        const hp_known *known = hp_census_find(census, &ring->ring.members[i]);
        where[i] = (hp_whereabouts){*hp_stays_except(&known->stays, &here), known->heard, known->stopped};
    }
    return where;
}

const char *
hp_whereabouts_print(const hp_whereabouts *where, const hp_roster *ring, char out[HP_WHERE_TEXT])
{
    const hp_wait_place *p = &where->stay.place;
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
    const hp_wait_place *p = &where->stay.place;
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
