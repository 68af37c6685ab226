/* SPDX-License-Identifier: MIT */
/*
 * reports: what this rank reports of the operation it is in: to the server IN_OP, PROGRESS, OUT and WAITING; to the other ranks,
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

/* Reports the running operation to the server at once: IN_OP. */
void hp_reports_in_op(hoop_comm *comm, uint64_t now);

/* Reports to the server at once that this rank has started an operation. */
void hp_reports_started(hoop_comm *comm);

/* If the rank is in no operation any more, or waits no longer, and the server was told that it does: tells it. */
void hp_reports_leave(hoop_comm *comm);

/*
 * A wait for operation `sequence` has lasted for `waited` ns, which was its limit: the operation, or the one that holds
 * it up, is to end with HOOP_ERR_TIMEOUT. The server judges it, or this rank (fault.c).
 */
void hp_reports_overdue(hoop_comm *comm, uint64_t sequence, uint64_t waited);

/* For how many ns that wait has lasted, if the operation is in progress; else 0. */
uint64_t hp_reports_overdue_for(const hoop_comm *comm, uint64_t now);

/* Between two rounds: notes progress, and sends what is due. */
void hp_reports_poll(hoop_comm *comm, uint64_t now);

/* Likewise, after hp_message_waits_poll: of what this rank waits for outside the operations in progress (WAITING). */
void hp_reports_wait(hoop_comm *comm, uint64_t now);

#endif
