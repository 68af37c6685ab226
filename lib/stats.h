/* SPDX-License-Identifier: MIT */
/*
 * stats: what a communicator is doing, in numbers for the server and in words for the user. Baton holder only, except
 * as noted. The server hears of this rank's counters (STATS) once a second while it calls, however short its operations
 * are.
 */
#ifndef HP_STATS_H
#define HP_STATS_H

#include "lib/account.h"
#include "lib/comm.h"

hp_report hp_stats_report(const hoop_comm *comm);

/* 1: the oldest operation waits for the caller's stream, so this rank has not entered it. */
int hp_stats_is_outside(const hoop_comm *comm);

/*
 * What the oldest operation waits for, else the oldest message; and the rank, or -1. HP_WAIT_NONE: there is none.
 */
hp_awaited hp_stats_awaits(const hoop_comm *comm);

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

/* --- once a second --- */

enum { HP_REPORT_TURNS = 2 }; /* of the loop after a report: the first may come before its answer */

/*
 * Measures, and sends them now: the ring is up, or this rank leaves. Nothing in a ring of one without a server,
 * where they are never due.
 */
void hp_vitals_send(hoop_comm *comm);

/*
 * Asks what time it is at the server. A rank asks only while it drives, after a report, so that it reads the answer: if its
 * process ended while one is unread, the server would see a reset, and think that the network failed.
 */
void hp_vitals_ask(hoop_comm *comm);

/* Whether a second has passed since the last time, by the clock as the loop or the recorder has read it last. */
static inline int
hp_vitals_are_due(const hoop_comm *comm)
{
    return hp_recorder_clock(comm) >= comm->reports.vitals_due;
}

/* Sends them if they are due. */
static inline void
hp_vitals_poll(hoop_comm *comm)
{
    if (hp_vitals_are_due(comm))
        hp_vitals_send(comm);
}

#endif
