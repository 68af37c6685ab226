/* SPDX-License-Identifier: MIT */
/* registration: see registration.h. */
#include "rendezvous/registration.h"
#include "lib/base/clock.h"
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
