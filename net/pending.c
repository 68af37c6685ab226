/* SPDX-License-Identifier: MIT */
/*
 * pending: see pending.h. Searches are linear: looking at 256 places takes less time than the accept that asks for
 * one. This file opens and closes nothing.
 */
#include "net/pending.h"

#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(hp_pending) <= 256, "a pending connection takes at most 256 bytes");

char *
hp_pending_quote(const hp_pending *pending, const char *what, size_t at, char text[HP_QUOTED])
{
    size_t n = (size_t)snprintf(text, HP_QUOTED, "%.80s (", what);
    for (size_t i = at; i < pending->have && i < at + 16; i++)
        n += (size_t)snprintf(text + n, HP_QUOTED - n, i == at ? "%02x" : " %02x", pending->m1[i]);
    snprintf(text + n, HP_QUOTED - n, ")");
    return text;
}

void
hp_pending_pool_share(hp_pending_pool *pool, int world)
{
    pool->per_address = world > HP_PER_ADDRESS ? world : HP_PER_ADDRESS;
}

void
hp_pending_pool_limit(hp_pending_pool *pool, int most)
{
    pool->most = most < HP_PLACES_LEAST ? HP_PLACES_LEAST : most > HP_PENDING_MAX ? HP_PENDING_MAX : most;
}

int
hp_pending_pool_taken(const hp_pending_pool *pool)
{
    int taken = 0;
    for (size_t i = 0; i < HP_PENDING_MAX; i++)
        taken += pool->places[i].incoming.fd >= 0;
    return taken;
}

void
hp_pending_pool_init(hp_pending_pool *pool, int world)
{
    hp_pending_pool_share(pool, world);
    hp_pending_pool_limit(pool, HP_PENDING_MAX);
    for (size_t i = 0; i < HP_PENDING_MAX; i++)
        pool->places[i] = (hp_pending){.incoming = {.fd = -1}};
}

static hp_pending *
older(hp_pending *a, hp_pending *b)
{
    return !a || b->incoming.deadline < a->incoming.deadline ? b : a;
}

hp_pending *
hp_pending_pool_oldest(hp_pending_pool *pool)
{
    hp_pending *found = NULL;
    for (size_t i = 0; i < HP_PENDING_MAX; i++)
        if (pool->places[i].incoming.fd >= 0)
            found = older(found, &pool->places[i]);
    return found;
}

/* One host may use all addresses of an IPv6 network of 64 bits. */
static int
same_origin(const hp_addr *a, const hp_addr *b)
{
    if (a->u.any.sa_family != AF_INET6 || b->u.any.sa_family != AF_INET6)
        return hp_addr_same_host(a, b);
    return memcmp(&a->u.v6.sin6_addr, &b->u.v6.sin6_addr, 8) == 0;
}

/* The oldest connection of this address, if the address has its share already; else NULL. */
static hp_pending *
surplus(hp_pending_pool *pool, const hp_addr *peer)
{
    hp_pending *found = NULL;
    int count = 0;
    if (hp_addr_is_loopback(peer))
        return NULL;
    for (size_t i = 0; i < HP_PENDING_MAX; i++) {
        hp_pending *pending = &pool->places[i];
        if (pending->incoming.fd < 0 || !same_origin(&pending->incoming.peer, peer))
            continue;
        found = older(found, pending);
        count++;
    }
    return count >= pool->per_address ? found : NULL;
}

hp_pending *
hp_pending_pool_place(hp_pending_pool *pool, const hp_addr *peer)
{
    hp_pending *place = surplus(pool, peer);
    if (place)
        return place;
    if (hp_pending_pool_taken(pool) >= pool->most)
        return hp_pending_pool_oldest(pool);
    for (size_t i = 0; i < HP_PENDING_MAX; i++)
        if (pool->places[i].incoming.fd < 0)
            return &pool->places[i];
    return hp_pending_pool_oldest(pool);
}
