/* SPDX-License-Identifier: MIT */
/*
 * pending: see pending.h. Searches are linear: 256 places are looked through in less time than the accept that asks for one.
 * Opens and closes nothing.
 */
#include "net/pending.h"

#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(hp_stranger) <= 256, "a stranger costs at most 256 bytes");

char *
hp_stranger_quote(const hp_stranger *stranger, const char *what, size_t at, char text[HP_QUOTED])
{
    size_t n = (size_t)snprintf(text, HP_QUOTED, "%.80s (", what);
    for (size_t i = at; i < stranger->have && i < at + 16; i++)
        n += (size_t)snprintf(text + n, HP_QUOTED - n, i == at ? "%02x" : " %02x", stranger->m1[i]);
    snprintf(text + n, HP_QUOTED - n, ")");
    return text;
}

void
hp_pool_share(hp_pool *pool, int world)
{
    pool->per_address = world > HP_PER_ADDRESS ? world : HP_PER_ADDRESS;
}

void
hp_pool_limit(hp_pool *pool, int most)
{
    pool->most = most < HP_PLACES_LEAST ? HP_PLACES_LEAST : most > HP_STRANGERS ? HP_STRANGERS : most;
}

int
hp_pool_taken(const hp_pool *pool)
{
    int taken = 0;
    for (size_t i = 0; i < HP_STRANGERS; i++)
        taken += pool->places[i].visitor.fd >= 0;
    return taken;
}

void
hp_pool_init(hp_pool *pool, int world)
{
    hp_pool_share(pool, world);
    hp_pool_limit(pool, HP_STRANGERS);
    for (size_t i = 0; i < HP_STRANGERS; i++)
        pool->places[i] = (hp_stranger){.visitor = {.fd = -1}};
}

static hp_stranger *
older(hp_stranger *a, hp_stranger *b)
{
    return !a || b->visitor.deadline < a->visitor.deadline ? b : a;
}

hp_stranger *
hp_pool_oldest(hp_pool *pool)
{
    hp_stranger *found = NULL;
    for (size_t i = 0; i < HP_STRANGERS; i++)
        if (pool->places[i].visitor.fd >= 0)
            found = older(found, &pool->places[i]);
    return found;
}

/* One host has all addresses of an IPv6 network of 64 bits, if it likes. */
static int
same_origin(const hp_addr *a, const hp_addr *b)
{
    if (a->u.any.sa_family != AF_INET6 || b->u.any.sa_family != AF_INET6)
        return hp_addr_same_host(a, b);
    return memcmp(&a->u.v6.sin6_addr, &b->u.v6.sin6_addr, 8) == 0;
}

/* The oldest of this address where it has its share already. */
static hp_stranger *
surplus(hp_pool *pool, const hp_addr *peer)
{
    hp_stranger *found = NULL;
    int count = 0;
    if (hp_addr_is_loopback(peer))
        return NULL;
    for (size_t i = 0; i < HP_STRANGERS; i++) {
        hp_stranger *stranger = &pool->places[i];
        if (stranger->visitor.fd < 0 || !same_origin(&stranger->visitor.peer, peer))
            continue;
        found = older(found, stranger);
        count++;
    }
    return count >= pool->per_address ? found : NULL;
}

hp_stranger *
hp_pool_place(hp_pool *pool, const hp_addr *peer)
{
    hp_stranger *place = surplus(pool, peer);
    if (place)
        return place;
    if (hp_pool_taken(pool) >= pool->most)
        return hp_pool_oldest(pool);
    for (size_t i = 0; i < HP_STRANGERS; i++)
        if (pool->places[i].visitor.fd < 0)
            return &pool->places[i];
    return hp_pool_oldest(pool);
}
