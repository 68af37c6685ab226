/* SPDX-License-Identifier: MIT */
/*
 * ops: the operations in progress, in order. An operation is appended to the belts, completes when its last step has
 * retired on all of them, and releases the caller's stream. Its work goes back to work_pool.c. Baton holder only.
 */
#ifndef HP_OPS_H
#define HP_OPS_H

#include "lib/comm.h"

/* Takes an operation into the belts' order; after a fault it completes at once, with the kept error. */
void hp_ops_start(hoop_comm *comm, hoop_work *work);

/* Completes the oldest operations, as far as the belts have done their steps; returns how many. */
int hp_ops_finish(hoop_comm *comm);

/*
 * The one way in which a work completes: its stream, its array and its owner get it back, or its function is queued.
 */
void hp_ops_complete(hoop_comm *comm, hoop_work *work, hoop_result result);

/* Completes all operations with the kept error. */
void hp_ops_fail(hoop_comm *comm);

/* Releases the caller's stream that waits for the work, if there is one. */
void hp_ops_release_stream(hoop_comm *comm, hoop_work *work);

#endif
