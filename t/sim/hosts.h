/* SPDX-License-Identifier: MIT */
/* hosts: hosts of some ranks each, by chance, for tests of the levels. */
#ifndef T_SIM_HOSTS_H
#define T_SIM_HOSTS_H

#include "lib/host_map.h"

enum { SIM_HOSTS_RANKS = 1000 };

/*
 * The map of at most SIM_HOSTS_RANKS positions, of which order[position] is the rank; order NULL: its own number. Hosts of
 * `even` ranks, the last one perhaps of fewer; 0: of any number each, four on an average. It is there until the next call.
 */
const hp_host_map *sim_hosts(int size, uint64_t even, const int *order);

#endif
