/* SPDX-License-Identifier: MIT */
/*
 * fault: the first cause wins, and every rank gets the same one. A symptom (end of file, reset) waits a short grace for
 * the cause; a fault seen here is told to the server, whose verdict, one for the whole ring, may still overrule it.
 */
#ifndef HP_FAULT_H
#define HP_FAULT_H

#include "lib/comm.h"

/* Looks at the control connection, the links, the devices and the clock. Baton holder only. */
void hp_fault_check(hoop_comm *comm, uint64_t now);

/*
 * What was just told to the server may have gone to a connection that was reset, seen or not: waits half a second at
 * most until this rank is back there, and has told it again. Baton holder only.
 */
void hp_fault_find_server(hoop_comm *comm);

/*
 * Any thread: makes `cause` the error, unless there is one, so that every later call knows it. The driver ends the works
 * with it at its next round.
 */
void hp_fault_request(hoop_comm *comm, const hoop_error *cause);

/*
 * Makes `cause` this communicator's error and ends all works with it; tells the neighbours and the server. A failure of
 * this rank itself (its GPU, its memory) is kept here as it is; the others get HOOP_ERR_ABORTED. Idempotent.
 */
void hp_fault_fail(hoop_comm *comm, const hoop_error *cause);

/* What the other ranks are told of a cause: one rank's own failure is not theirs. */
hoop_error hp_fault_told(const hoop_comm *comm, const hoop_error *cause);

/* A cause that this rank saw: told to the server, then as above after the grace; its own failure, as above at once. */
void hp_fault_report(hoop_comm *comm, const hoop_error *cause, uint64_t now);

#endif
