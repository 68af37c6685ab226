/* SPDX-License-Identifier: MIT */
/*
 * fault: the first cause wins, and every rank gets the same one. A symptom (end of file, reset) waits a short grace for
 * the cause; a fault seen here is reported to the server, whose verdict, one for the whole ring, may still overrule it.
 */
#ifndef HP_FAULT_H
#define HP_FAULT_H

#include "lib/comm.h"

/* Checks the control connection, the links, the devices and the clock. Baton holder only. */
void hp_fault_check(hoop_comm *comm, uint64_t now);

enum { HP_FIND_SERVER_MS = 500 };

/*
 * The control connection may have been reset, and the last report of this rank lost with it: waits until it is made again,
 * and that was sent again, for so long at most. Baton holder only.
 */
void hp_fault_find_server(hoop_comm *comm, int ms);

/*
 * Any thread: makes `cause` the error, unless there is one, so that every later call knows it. The driver ends the
 * works with it at its next round.
 */
void hp_fault_request(hoop_comm *comm, const hoop_error *cause);

/*
 * Makes `cause` this communicator's error and ends all works with it; sends it to the neighbours and the server. A
 * failure of this rank itself (its GPU, its memory) is kept here as it is; the others get HOOP_ERR_ABORTED. Idempotent.
 */
void hp_fault_fail(hoop_comm *comm, const hoop_error *cause);

/* The cause as the other ranks get it: a failure of this rank itself is HOOP_ERR_ABORTED for them. */
hoop_error hp_fault_for_others(const hoop_comm *comm, const hoop_error *cause);

/*
 * A cause that this rank has seen: reports it to the server, and fails with it after the grace. Its own failure counts
 * at once.
 */
void hp_fault_report(hoop_comm *comm, const hoop_error *cause, uint64_t now);

#endif
