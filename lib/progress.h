/* SPDX-License-Identifier: MIT */
/*
 * progress: which thread drives. A thread that waits takes the baton and runs the rounds itself, so that small
 * operations wake no other thread; others that wait meanwhile sleep. A background thread takes it only while
 * non-blocking works are outstanding and no thread waits. The mutex of the driver guards its fields, the inbox, the free works and the devices until they are
 * chosen.
 */
#ifndef HP_PROGRESS_H
#define HP_PROGRESS_H

#include "lib/baton.h"

hoop_result hp_progress_init(hoop_comm *comm, hoop_error *error);
void hp_progress_stop(hoop_comm *comm); /* ends all threads of the communicator; none drives afterwards */

/* Numbers the works of the list (linked by `next`) and puts them in the inbox. blocking: the caller waits next. */
void hp_progress_submit(hoop_comm *comm, hoop_work *first, hoop_work *last, int blocking);

/* Before and after a blocking call or a wait. Meanwhile the background thread rests, and nobody destroys comm. */
void hp_progress_enter(hoop_comm *comm);
int hp_progress_enter_alone(hoop_comm *comm); /* likewise; 0: there are other such threads, and it has not entered */
void hp_progress_leave(hoop_comm *comm);

/*
 * Likewise, for a thread that drives another communicator meanwhile, as in a split: if no other thread waits here, the
 * background thread drives this one, also where the program has a loop of its own.
 */
void hp_progress_depart(hoop_comm *comm);
void hp_progress_return(hoop_comm *comm);

/*
 * Opens the queues on this device, before a stream is blocked for an operation on it: opening them may wait for all
 * that the GPU holds, and so for a blocked stream. Waits for the baton.
 */
void hp_progress_pin(hoop_comm *comm, int device);

/*
 * Waits until the work is done or the deadline has passed: drives, or sleeps while another thread does; the thread has
 * entered. Functions of works that have ended are called meanwhile. 1: done.
 */
int hp_progress_wait(hoop_comm *comm, hoop_work *work, uint64_t deadline);
int hp_progress_until(hp_waiter *waiter, uint64_t deadline); /* likewise, for what the waiter waits for */

/*
 * A wait for operation `sequence` has lasted for `waited` ns, which was its limit: the operation is to end, and with it
 * the communicator. 0: another thread has been stuck with the baton for 5 s.
 */
int hp_progress_overdue(hoop_comm *comm, uint64_t sequence, uint64_t waited);

/*
 * As hp_message_waits_of, if the work waits for messages only; 0: it waits for the collectives of its group, too, or is done.
 * -1: another thread has been stuck.
 */
int hp_progress_awaits(hoop_comm *comm, const hoop_work *work, hp_message *first);

/* One non-blocking round, if no other thread drives. */
void hp_progress_poke(hoop_comm *comm);

/*
 * From any thread: this rank ends the job with `cause`. 1: no thread of the library touches an array any more. 0: the
 * driver has been stuck for 5 s; every later call returns the cause, and the works end when the driver comes back.
 */
int hp_progress_abort(hoop_comm *comm, const hoop_error *cause);

/* This rank's call of that split has failed, by `cause`: the server informs the ranks that wait in it. */
void hp_progress_refuse(hoop_comm *comm, uint32_t split, const hoop_error *cause);

/* This rank's call of that split, or grow, has succeeded. */
void hp_progress_placed(hoop_comm *comm, uint32_t split);

/*
 * A call of this rank was refused before it became an operation, and other ranks may wait in it: reports it to the
 * server, and reports as well when this rank starts an operation. Returns soon. Not for a communicator whose error is
 * known.
 */
void hp_progress_unstarted(hoop_comm *comm, const hp_call *call, const hoop_error *cause);

/*
 * hoop_comm_fd: the program drives from now on; -1 with the error filled, and nothing has changed. Waits 5 s at most
 * for the baton.
 */
int hp_progress_fd(hoop_comm *comm, hoop_error *error);

/*
 * hoop_comm_fd_close, with a descriptor: the background thread drives again, and it is closed. 0: another thread has been
 * stuck with the baton for 5 s, and nothing has changed.
 */
int hp_progress_fd_close(hoop_comm *comm);

#endif
