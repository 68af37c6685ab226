/* SPDX-License-Identifier: MIT */
/* leave: the end of a membership: operations in flight, LEAVE, the last bytes, the memory. */
#ifndef HP_LEAVE_H
#define HP_LEAVE_H

#include "lib/comm.h"

/*
 * Waits for operations in flight up to op_timeout_ms, then aborts them; sends LEAVE, and waits until the last bytes are
 * delivered. Frees nothing. 0: another thread is stuck with the baton, and nothing was taken down.
 */
int hp_leave(hoop_comm *comm);

/* A bring-up that failed here: reports to the server, so that the others need not wait for their own time-out. */
void hp_leave_failed(hoop_comm *comm, const hoop_error *cause);

/* Frees everything; the communicator must be quiet (no works, no driver). */
void hp_leave_free(hoop_comm *comm);

#endif
