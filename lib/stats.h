/* SPDX-License-Identifier: MIT */
/* stats: what a communicator is doing, in numbers for the server and in words for the user. Baton holder only. */
#ifndef HP_STATS_H
#define HP_STATS_H

#include "lib/comm.h"

hp_report hp_stats_report(const hoop_comm *comm);

/* "rank 3 (node2) waits 31 s in operation 17 (allreduce of ...), step 45 of 112, for data from rank 2 (node1)". */
const char *hp_stats_waiting(const hoop_comm *comm, uint64_t ms, char *out, size_t size);

/*
 * The stall warning, while the server, which would give it, is lost: names the rank that holds up the ring, as often as
 * rendezvous/stall_warning.h has it. Of all ranks that wait, one that can blame a rank by the heartbeats warns; of
 * several the lowest.
 */
void hp_stats_stall(hoop_comm *comm, uint64_t after, uint64_t now);

#endif
