/* SPDX-License-Identifier: MIT */
/*
 * bootstrap: how the processes that another launcher has started become a ring without hooprun. It fills in the settings
 * that hooprun would have set: rank, size, server, job and secret. Rank 0's process has the server.
 */
#ifndef HP_BOOTSTRAP_H
#define HP_BOOTSTRAP_H

#include "lib/comm.h"

/*
 * In comm->config, before the communicator joins, if no HOOP_RENDEZVOUS is set and a launcher has started several
 * processes: each of them must call this, as often and in the same order. Waits for the others until the deadline (by
 * hp_loop_now). In all other cases the settings stay as they are.
 */
hoop_result hp_bootstrap_run(hoop_comm *comm, uint64_t deadline, hoop_error *error);

/* The communicator has joined, or failed: its settings hold no secret any more. */
void hp_bootstrap_forget(hoop_comm *comm);

#endif
