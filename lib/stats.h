/* SPDX-License-Identifier: MIT */
/*
 * stats: what a communicator is doing, in numbers for the server and in words for the user. Baton holder only, except as
 * noted.
 */
#ifndef HP_STATS_H
#define HP_STATS_H

#include "lib/comm.h"

hp_report hp_stats_report(const hoop_comm *comm);

/* 1: the oldest operation waits for the caller's stream, so this rank has not entered it. */
int hp_stats_is_outside(const hoop_comm *comm);

/*
 * What the oldest operation waits for, else the oldest message; and the rank, or -1. HP_WAIT_NONE: there is none.
 */
hp_awaited hp_stats_awaits(const hoop_comm *comm);

/* Reads what TCP has measured on the way to the next rank, and compares clocks with the server; not without one. */
void hp_stats_measure(hoop_comm *comm);

/* Everything but `size`. Any thread, at any time. */
void hp_stats_fill(hoop_comm *comm, hoop_stats *stats);

/* "rank 3 (node2) waits 31 s in operation 17 (allreduce of ...), step 45 of 112, for data from rank 2 (node1)". */
const char *hp_stats_waiting(const hoop_comm *comm, uint64_t ms, char *out, size_t size);

/*
 * The stall warning, while the server, which would give it, is lost: names the rank that holds up the ring, as often as
 * rendezvous/stall_warning.h has it. Of all ranks that wait, one that can blame a rank by the heartbeats warns, as soon
 * as it could for a whole interval; of several the lowest.
 */
void hp_stats_stall(hoop_comm *comm, uint64_t after, uint64_t now);

#endif
