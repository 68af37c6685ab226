/* SPDX-License-Identifier: MIT */
/*
 * reports: what this rank reports of the operation it is in: to the server IN_OP, PROGRESS and OUT; to the other ranks,
 * while the server is lost, its heartbeat (peer_heartbeat.h); to the user a warning. Baton holder only.
 */
#ifndef HP_REPORTS_H
#define HP_REPORTS_H

#include "lib/comm.h"

/* The rank enters operation `sequence`, and was in none before: time counts from the next poll. */
static inline void
hp_reports_enter(hoop_comm *comm, uint64_t sequence)
{
    comm->reports.entered = sequence;
    comm->reports.entering = 1;
}

/* Reports to the server at once that this rank has started an operation. */
void hp_reports_started(hoop_comm *comm);

/* If the rank is in no operation any more, and was reported to be in one: reports that it is out. */
void hp_reports_leave(hoop_comm *comm);

/* Between two rounds: notes progress, and sends what is due. */
void hp_reports_poll(hoop_comm *comm, uint64_t now);

#endif
