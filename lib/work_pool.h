/* SPDX-License-Identifier: MIT */
/*
 * work_pool: a communicator's works and their arrays of segments: allocated where none is free, filled, planned, used
 * again, and freed with the communicator. Any thread.
 */
#ifndef HP_WORK_POOL_H
#define HP_WORK_POOL_H

#include "lib/comm.h"
#include "lib/request.h"

/*
 * One from the free list, zeroed but for its segment array and its blocks: room for one of each rank, if it is to have
 * them. NULL when memory runs out.
 */
hoop_work *hp_work_pool_take(hoop_comm *comm, int has_blocks);

/*
 * One that is filled from a checked request: its call, its buffers as the single segment, its blocks, its device. NULL
 * with the error filled: memory has run out, or blocks overlap.
 */
hoop_work *hp_work_pool_make(hoop_comm *comm, const hp_request *request, int device, hoop_error *error);
void hp_work_pool_give(hoop_comm *comm, hoop_work *work);

/*
 * The work is done. `before`: its state until then, which tells whether its owner still has it. Threads that wait for
 * the communicator from elsewhere are woken.
 */
void hp_work_pool_settle(hoop_comm *comm, hoop_work *work, int before);

/* Fills work->plan, ->place, ->channels from its call and segments; no communication. */
void hp_work_pool_plan(hoop_comm *comm, hoop_work *work);

/*
 * Arrays of segments outlive the groups they were made for, so that a steady program allocates nothing: take_array
 * gives the work the roomiest one that is free, if any; give_array puts the work's array back, if it has one.
 */
void hp_work_pool_take_array(hoop_comm *comm, hoop_work *work);
void hp_work_pool_give_array(hoop_comm *comm, hoop_work *work);

/*
 * A work for messages, of this call; it has none yet. hp_work_pool_add_messages appends so
 * many, zeroed, and returns the first of them. NULL when memory runs out.
 */
hoop_work *hp_work_pool_make_messages(hoop_comm *comm, const hp_call *call);
hp_message *hp_work_pool_add_messages(hoop_work *work, size_t count);

void hp_work_pool_free(hoop_comm *comm); /* frees all that were ever made; the caller has no handle any more */

#endif
