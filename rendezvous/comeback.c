/* SPDX-License-Identifier: MIT */
/* comeback: see comeback.h. */
#include "rendezvous/comeback.h"

/* Whether this JOIN may be that of the rank: it is the same process, and the ring awaits it. */
static int
is_rank(const hp_roster *r, int rank, const hp_join *join)
{
    return hp_member_same(&r->ring.members[rank], &join->member) && !r->witnesses[rank].left &&
           (r->peers[rank] || r->losses.away[rank]);
}

static int
find_member(const hp_roster *r, const hp_join *join)
{
    int rank = join->member.rank;
    int fits = r->ring.comm == join->ring && r->ring.size == join->size && rank >= 0 && rank < r->ring.size &&
               r->ring.epoch == join->epoch && hp_ring_digest(&r->ring) == join->digest;
    return fits && is_rank(r, rank, join) ? rank : -1;
}

int
hp_comeback_find(const hp_roster *r, const hp_join *join)
{
    if (join->ring)
        return find_member(r, join);
    for (int i = 0; join->epoch && i < r->ring.size; i++)
        if (r->witnesses[i].number == join->epoch && is_rank(r, i, join))
            return i;
    return -1;
}

void
hp_comeback_take(hp_roster *r, int rank, void *peer, const hp_join *join, uint64_t now)
{
    uint8_t payload[HP_ABORT_BYTES];
    hp_link_loss_back(&r->losses, rank);
    hp_link_loss_found(&r->losses, rank); /* what still holds comes again */
    r->present += r->peers[rank] ? 0 : 1;
    r->peers[rank] = peer;
    r->witnesses[rank].waiting.call.kind = 0;
    r->witnesses[rank].silence = 0;
    if (r->state == HP_ROSTER_FAILED) {
        r->events->send(r->events->arg, peer, HP_ABORT, payload, hp_abort_put(payload, &r->cause));
        return;
    }
    if (!join->ring)
        hp_events_assign(r->events, peer, r, rank);
    else
        hp_roster_back(r, rank, join->completed, now);
    if (r->state == HP_ROSTER_RUNNING)
        r->events->send(r->events->arg, peer, HP_GO, NULL, 0);
}
