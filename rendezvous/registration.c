/* SPDX-License-Identifier: MIT */
/* registration: see registration.h. */
#include "rendezvous/registration.h"

#include "base/clock.h"

#include <string.h>

static hp_join
common(const hp_client_options *o)
{
    hp_join join = {
        .who = {.rank = -1, .host_id = o->host_id, .processors = o->processors, .pid = o->pid, .addr = o->listen},
        .op_timeout = o->op_timeout,
        .warn_after = o->warn_after,
        .started = o->started,
        .completed = o->completed,
        .parent_rank = -1};
    memcpy(join.who.host, o->host, sizeof(join.who.host));
    return join;
}

hp_join
hp_registration_first(const hp_client_options *o, uint64_t now)
{
    uint64_t left = o->deadline > now ? (o->deadline - now) / HP_MS + 1 : 1;
    hp_join join = common(o);
    join.size = o->size;
    join.patience = left < UINT32_MAX ? (uint32_t)left : UINT32_MAX;
    join.digest = o->parent_digest;
    join.parent = o->parent;
    join.split = o->split;
    join.color = o->color;
    join.key = o->key;
    if (o->parent) {
        join.parent_rank = o->parent_rank;
        join.parent_size = o->parent_size;
    } else {
        join.who.rank = o->rank;
    }
    return join;
}

hp_join
hp_registration_again(const hp_client_options *o, const hp_ring *ring)
{
    hp_join join = common(o);
    join.who.rank = ring->rank;
    join.size = ring->size;
    join.patience = HP_RETURN_MS;
    join.ring = ring->comm;
    join.epoch = ring->epoch;
    join.digest = hp_ring_digest(ring);
    return join;
}

hp_hello
hp_registration_hello(const hp_client_options *o, const hp_ring *again)
{
    int rank = again ? again->rank : o->parent ? o->parent_rank : o->rank;
    int size = again ? again->size : o->parent ? o->parent_size : o->size;
    return (hp_hello){.comm = again ? again->comm : o->parent,
                      .my_rank = rank < 0 ? HP_RANK_UNKNOWN : (uint32_t)rank,
                      .world = (uint32_t)size};
}

int
hp_registration_fits(const hp_client_options *o, const hp_ring *ring, int parts_to, const hp_part *part)
{
    if (part->first != parts_to)
        return 0;
    if (parts_to > 0)
        return part->comm == ring->comm && part->epoch == ring->epoch && part->rank == ring->rank &&
               part->size == ring->size;
    if (o->parent)
        return part->size <= o->parent_size && (o->color < 0) == (part->size == 0);
    return part->size == o->size && (o->rank < 0 || part->rank == o->rank);
}
