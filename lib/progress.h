/* SPDX-License-Identifier: MIT */
/*
 * progress: who drives. One baton a communicator: a waiting caller takes it and runs the belt on its own thread, so
 * that small operations wake nobody; a background thread takes it only while non-blocking work is outstanding and
 * nobody waits. baton.c hands it over.
 */
#ifndef HP_PROGRESS_H
#define HP_PROGRESS_H

#include "lib/comm.h"

hoop_result hp_progress_init(hoop_comm *comm, hoop_error *error);
void hp_progress_stop(hoop_comm *comm); /* ends the background thread; nobody drives afterwards */

/* How long the driver looks before it sleeps: by the setting, and by how many ranks share the host's processors. */
void hp_progress_set_spin(hoop_comm *comm);

/* Numbers the works of the list (linked by `next`) and puts them in the inbox. blocking: the caller waits next. */
void hp_progress_submit(hoop_comm *comm, hoop_work *first, hoop_work *last, int blocking);

/* Reserves the one waiting place: HOOP_SUCCESS or HOOP_ERR_BUSY. */
hoop_result hp_progress_enter(hoop_comm *comm);
void hp_progress_leave(hoop_comm *comm);

/*
 * The waiting place's owner drives another communicator for a while, and comes back: the background thread moves works
 * meanwhile, also where the program has a loop of its own.
 */
void hp_progress_depart(hoop_comm *comm);
void hp_progress_return(hoop_comm *comm);

/*
 * Before a stream is stopped for an operation on this device: the queues are open. Opening them may wait for all that
 * the GPU holds, so for a stream that waits for us, too. Waits for a blocking call of another thread to end.
 */
void hp_progress_pin(hoop_comm *comm, int device);

/* Submits one work and drives until it is done; the place must be reserved. */
void hp_progress_run(hoop_comm *comm, hoop_work *work);

/* Drives until the work is done or the deadline has passed; the place must be reserved. 1: done. */
int hp_progress_wait(hoop_comm *comm, hoop_work *work, uint64_t deadline);

/* One non-blocking round, if nobody else drives. */
void hp_progress_poke(hoop_comm *comm);

/* Drives until no work is outstanding or the deadline has passed; the waiting place must be reserved. 1: none is left.
 */
int hp_progress_finish(hoop_comm *comm, uint64_t deadline);

/*
 * From any thread: this rank ends the job with `cause`. 1: nothing touches an array any more. 0: whoever drives has been
 * stuck for seconds; the cause is known to every later call, and the rest happens when that one comes back.
 */
int hp_progress_abort(hoop_comm *comm, const hoop_error *cause);

/* This rank's call of that split is over, by `cause`: told to the ranks that wait in it. */
void hp_progress_refuse(hoop_comm *comm, uint32_t split, const hoop_error *cause);

/*
 * A call of this rank was refused before it became an operation, which the others may wait in: the server is told, and,
 * as soon as an operation is started, that one was. Does nothing for long. Not for a communicator that is known to fail.
 */
void hp_progress_unstarted(hoop_comm *comm, const hp_call *call, const hoop_error *cause);

/* hoop_comm_fd: the program drives from now on; -1 with the error filled, and nothing has changed. Waits 5 s at most for
 * whoever drives. */
int hp_progress_fd(hoop_comm *comm, hoop_error *error);

#endif
