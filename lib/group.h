/* SPDX-License-Identifier: MIT */
/*
 * group: calls that a thread queues between hoop_group_start and its end; small allreduces of one dtype and op become
 * one pass. A group is its thread's own: other threads may have one on the same communicator.
 */
#ifndef HP_GROUP_H
#define HP_GROUP_H

#include "lib/comm.h"
#include "lib/request.h"

/*
 * The communicator on which the calling thread has a group open; NULL: none. Inside a function of hoop_work_on_done
 * none is: what the function starts is no part of the group of the thread that happens to call it.
 */
const hoop_comm *hp_group_open(void);

void hp_group_begin(hoop_comm *comm); /* for this thread, which has none open */

/*
 * A checked call with its device: 1 if it has joined a queued work, 0 if it must be queued as a work of its own, -1 if
 * memory ran out. All messages of the group are one work, and start when it ends, in the order of their calls.
 */
int hp_group_join(hoop_comm *comm, const hp_request *request, int device);

/* A checked call as a work, queued. The work's buffers are in its single segment. */
void hp_group_add(hoop_work *work);

/* This thread's error is of a call inside: kept with the call, the group will be dropped. Returns its code. */
hoop_result hp_group_spoil(hoop_comm *comm, const hp_call *call);

/*
 * Closes the group: plans, and returns the list (linked by next) in *first and *last; NULL when the group was empty or
 * spoiled: then the result is an error, and *refused is the first call that is not started.
 */
hoop_result hp_group_close(hoop_comm *comm, hoop_work **first, hoop_work **last, hp_call *refused, hoop_error *error);

#endif
