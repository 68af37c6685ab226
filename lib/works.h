/* SPDX-License-Identifier: MIT */
/*
 * works: the life of a communicator's works. One is taken from the pool, filled from a checked call and planned; any thread
 * submits it to the inbox; the driver starts it: it is appended to the belts, and completes when its last step has retired
 * on all of them. Then the caller's stream is released, a function that the program has set (hoop_work_on_done) is called,
 * and the work goes back to its owner or to the pool.
 */
#ifndef HP_WORKS_H
#define HP_WORKS_H

#include "lib/comm.h"
#include "lib/request.h"

/* --- the pool: any thread --- */

/*
 * One from the free list, zeroed but for its segment array and its blocks: room for one of each rank, if it is to have
 * them. NULL when memory runs out.
 */
hoop_work *hp_work_pool_take(hoop_comm *comm, int has_blocks);

/*
 * One that is filled from a checked request: its call, its buffers as the single segment, its blocks, its device; or its
 * messages. NULL with the error filled: memory has run out, or blocks overlap.
 */
hoop_work *hp_work_pool_make(hoop_comm *comm, const hp_request *request, int device, hoop_error *error);
void hp_work_pool_give(hoop_comm *comm, hoop_work *work);

/* Fills work->plan, ->place, ->channels from its call and segments; no communication. */
void hp_work_pool_plan(hoop_comm *comm, hoop_work *work);

/*
 * Arrays of segments outlive the groups they were made for, so that a steady program allocates nothing: take_array
 * gives the work the roomiest one that is free, if any; give_array puts the work's array back, if it has one.
 */
void hp_work_pool_take_array(hoop_comm *comm, hoop_work *work);
void hp_work_pool_give_array(hoop_comm *comm, hoop_work *work);

/* Appends the messages of another request to a work for messages, in the order of the calls. 0: memory has run out. */
int hp_work_pool_join(hoop_work *work, const hp_request *request, int device);

void hp_work_pool_free(hoop_comm *comm); /* frees all that were ever made; the caller has no handle any more */

/* --- the inbox: operations that were submitted, and the last call that was refused before it became one --- */

/* Numbers the works of the list (linked by `next`) and appends them. The caller holds the driver's mutex. */
void hp_inbox_put(hp_driver *driver, hoop_work *first, hoop_work *last);

/*
 * All works of the inbox, which is empty then; *last is the number of the last one, 0 without any; *refused: the driver
 * has a refused call, which was not reported, or whose report no operation has followed yet.
 */
hoop_work *hp_inbox_take(hoop_comm *comm, uint64_t *last, int *refused);

uint64_t hp_inbox_started(hoop_comm *comm); /* operations, by any thread: the number of the last */

/* --- in progress: baton holder only --- */

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

/* Releases the caller's stream that waits for the work, if there is one. failed: it goes on with a wrong array. */
void hp_ops_release_stream(hoop_comm *comm, hoop_work *work, int failed);

/* --- functions of works that have ended --- */

/*
 * A work that has ended queues for its function. The driver gives the baton back, and its thread calls what is due, outside
 * all locks, so that a function may start operations and abort. One thread at a time calls, in the order of the queue.
 */

/* The work has ended, and its function is set: the function is due. */
void hp_callback_queue(hoop_comm *comm, hoop_work *work);

/*
 * Calls all functions that are due, those that become due meanwhile too, unless another thread does so. The caller
 * holds neither the baton nor the driver's mutex.
 */
void hp_callback_run(hoop_comm *comm);

int hp_callback_inside(void); /* this thread is in such a function */

/* Functions are due, and no thread calls them: the driver gives the baton back. */
static inline int
hp_callback_due(hoop_comm *comm)
{
    return atomic_load_explicit(&comm->driver.has_due, memory_order_relaxed);
}

#endif
