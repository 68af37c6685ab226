/* SPDX-License-Identifier: MIT */
/* ring_order: see ring_order.h. */
#include "rendezvous/ring_order.h"

#include "base/mem.h"

#include <stdlib.h>

typedef struct place {
    uint64_t host;
    int first, rank; /* the lowest rank of this host, and this rank */
} place;

static int
by_host(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->host != y->host)
        return x->host < y->host ? -1 : 1;
    return x->rank - y->rank;
}

static int
by_first(const void *a, const void *b)
{
    const place *x = a, *y = b;
    return x->first != y->first ? x->first - y->first : x->rank - y->rank;
}

int
hp_ring_arrange(hp_ring *ring)
{
    place *places = hp_alloc((size_t)ring->size, sizeof(*places));
    if (!places)
        return 0;
    for (int i = 0; i < ring->size; i++)
        places[i] = (place){ring->members[i].host_id, i, i};
    qsort(places, (size_t)ring->size, sizeof(*places), by_host);
    for (int i = 1; i < ring->size; i++)
        if (places[i].host == places[i - 1].host)
            places[i].first = places[i - 1].first;
    qsort(places, (size_t)ring->size, sizeof(*places), by_first);
    for (int i = 0; i < ring->size; i++)
        ring->order[i] = places[i].rank;
    free(places);
    return 1;
}

int
hp_ring_hosts(const hp_ring *ring)
{
    int hosts = 0;
    for (int i = 0; i < ring->size; i++)
        hosts += i == 0 || ring->members[ring->order[i]].host_id != ring->members[ring->order[i - 1]].host_id;
    return hosts;
}
