/* SPDX-License-Identifier: MIT */
/* host_map: see host_map.h. */
#include "lib/host_map.h"

void
hp_host_map_fill(hp_host_map *hosts, const uint64_t *host, int size)
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
