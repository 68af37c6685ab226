/* SPDX-License-Identifier: MIT */
/* host_map: see host_map.h. */
#include "lib/host_map.h"

/* The numbers of n ranks by their ranks, or of n hosts by their lowest ranks. */
static void
sort(int *numbers, const int *rank, int n)
{
    for (int i = 0; i < n; i++) {
        int at = i;
        for (; at > 0 && rank[numbers[at - 1]] > rank[i]; at--)
            numbers[at] = numbers[at - 1];
        numbers[at] = i;
    }
}

void
hp_host_map_fill(hp_host_map *hosts, const uint64_t *host, const int *order, int size)
{
    hosts->count = 0;
    for (int position = 0; position < size; position++)
        if (position == 0 || host[position] != host[position - 1])
            hosts->first[hosts->count++] = position;
    hosts->first[hosts->count] = size;
    hosts->least = hosts->most = hosts->first[1];
    for (int h = 1; h < hosts->count; h++) {
        int ranks = hosts->first[h + 1] - hosts->first[h];
        hosts->least = ranks < hosts->least ? ranks : hosts->least;
        hosts->most = ranks > hosts->most ? ranks : hosts->most;
    }
    int lowest[HP_ORDERED_MOST];
    for (int h = 0; h < hosts->count && size <= HP_ORDERED_MOST; h++) {
        int first = hosts->first[h];
        sort(hosts->by_rank + first, order + first, hosts->first[h + 1] - first);
        lowest[h] = order[first + hosts->by_rank[first]];
    }
    if (size <= HP_ORDERED_MOST)
        sort(hosts->hosts, lowest, hosts->count);
}

hp_seat
hp_host_map_seat(const hp_host_map *hosts, int position)
{
    int host = 0, end = hosts->count;
    while (end - host > 1) {
        int middle = host + (end - host) / 2;
        if (hosts->first[middle] <= position)
            host = middle;
        else
            end = middle;
    }
    return (hp_seat){host, position - hosts->first[host], hosts->first[host + 1] - hosts->first[host]};
}
