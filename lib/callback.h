/* SPDX-License-Identifier: MIT */
/*
 * callback: the program's functions that are called when an operation has ended (hoop_work_on_done). A work that has
 * ended queues for its function. The driver gives the baton back, and its thread calls what is due, outside all locks,
 * so that a function may start operations and abort. One thread at a time calls, in the order of the queue.
 */
#ifndef HP_CALLBACK_H
#define HP_CALLBACK_H

#include "lib/comm.h"

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
