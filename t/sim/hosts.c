/* SPDX-License-Identifier: MIT */
/* hosts: see hosts.h. */
#include "t/sim/hosts.h"

#include "t/tap/tap.h"

const hp_host_map *
sim_hosts(int size, uint64_t even, const int *order)
{
    static int first[SIM_HOSTS_RANKS + 1];
    static hp_host_map hosts = {.first = first};
    uint64_t host[SIM_HOSTS_RANKS];
    int natural[SIM_HOSTS_RANKS];
    for (int p = 0; p < size; p++) {
        host[p] = p == 0 ? 1 : even ? 1 + (uint64_t)p / even : host[p - 1] + (tap_pick(4) == 0);
        natural[p] = p;
    }
    hp_host_map_fill(&hosts, host, order ? order : natural, size);
    return &hosts;
}
