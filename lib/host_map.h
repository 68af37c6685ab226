/* SPDX-License-Identifier: MIT */
/*
 * host_map: which positions of a ring are on which host. Ranks of one host are neighbours on the ring, so a host is a
 * stretch of positions. Every rank has the same map, from the server's roster. Pure.
 */
#ifndef HP_HOST_MAP_H
#define HP_HOST_MAP_H

#include <stdint.h>

enum { HP_ORDERED_MOST = 64 }; /* ranks of a reduction in the order of ranks or hosts: a window has so many steps */

typedef struct hp_host_map {
    int count;       /* hosts; 0: the map is not known */
    int least, most; /* ranks of the smallest host, and of the largest */
    int *first;      /* position at which a host begins; first[count] is the size of the ring */
    /*
     * Of at most HP_ORDERED_MOST ranks. by_rank: from a host's first position on the numbers there of its ranks, the
     * lowest rank first; hosts: the hosts' numbers, that of rank 0 first, then by the lowest rank of each.
     */
    int by_rank[HP_ORDERED_MOST], hosts[HP_ORDERED_MOST];
} hp_host_map;

/* Where a position is. */
typedef struct hp_seat {
    int host, local; /* its host, and its number there: 0, 1 ... */
    int ranks;       /* of that host */
} hp_seat;

/*
 * For `size` positions: host[position], equal on one host, and order[position] = rank. hosts->first has room for
 * size + 1 numbers.
 */
void hp_host_map_fill(hp_host_map *hosts, const uint64_t *host, const int *order, int size);

hp_seat hp_host_map_seat(const hp_host_map *hosts, int position);

#endif
