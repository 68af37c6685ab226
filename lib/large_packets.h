/* SPDX-License-Identifier: MIT */
/*
 * large_packets: says that a path may drop large packets alone, as one whose switch or tunnel has a smaller MTU than the hosts:
 * small packets are answered, and no data is acknowledged. One WARN line of the rank that sends. Baton holder only.
 */
#ifndef HP_LARGE_PACKETS_H
#define HP_LARGE_PACKETS_H

#include "lib/comm.h"

/* A look, once a second, at the awaited link that has been silent longest; NULL: none is. */
void hp_large_packets_check(hoop_comm *comm, const hp_link *link, uint64_t now);

#endif
