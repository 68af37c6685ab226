/* SPDX-License-Identifier: MIT */
/*
 * join: how a process gets into a ring (bootstrap.c, then join.c), and out of it (leave.c).
 */
#ifndef HP_JOIN_H
#define HP_JOIN_H

#include "lib/comm.h"

/* --- the processes of another launcher become a ring without hooprun --- */

/*
 * In comm->config, before the communicator joins, if no HOOP_RENDEZVOUS is set and a launcher has started several
 * processes: each of them must call this, as often and in the same order. Waits for the others until the deadline (by
 * hp_loop_now). In all other cases the settings stay as they are.
 */
hoop_result hp_bootstrap_run(hoop_comm *comm, uint64_t deadline, hoop_error *error);

/* The communicator has joined, or failed: its settings hold no secret any more. */
void hp_bootstrap_end(hoop_comm *comm, int joined);

/* --- bring-up: server, an entry at the listener, links to the neighbours, READY, GO --- */

uint64_t hp_join_limit(const hoop_comm *comm); /* bootstrap_timeout_ms, in ns */
/* When it is over, by hp_loop_now(); resolving names counts, too. */
uint64_t hp_join_deadline(const hoop_comm *comm);

/* The world: from settings alone. comm->config is resolved, comm->loop is made. */
hoop_result hp_join_world(hoop_comm *comm, uint64_t deadline, hoop_error *error);

typedef struct hp_derivation {
    int shrink; /* 1: of the ranks that are left; 0: of those with the same colour, in the order of their keys */
    int grow;   /* 1: of all ranks, and those that wait */
    int color, key;
    uint64_t within; /* ns until it has failed */
} hp_derivation;

/* A ring of ranks of `parent`; comm->size is 0 afterwards when the colour was negative, or nobody waits. */
hoop_result hp_join_derived(hoop_comm *comm, hoop_comm *parent, const hp_derivation *how, hoop_error *error);

/* --- the end: operations in flight, LEAVE, the last bytes, the memory --- */

/*
 * Waits for operations in flight up to op_timeout_ms, and for receives that no rank matches 5 s, then aborts them; sends
 * LEAVE, and waits until the last bytes are delivered. Frees nothing. 0: another thread is stuck with the baton, and nothing
 * was taken down.
 */
int hp_leave(hoop_comm *comm);

/* A bring-up that failed here: reports to the server, so that the others need not wait for their own time-out. */
void hp_leave_failed(hoop_comm *comm, const hoop_error *cause);

/* Frees everything; the communicator must be quiet (no works, no driver). */
void hp_leave_free(hoop_comm *comm);

#endif
