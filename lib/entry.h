/* SPDX-License-Identifier: MIT */
/*
 * entry: what the public calls share, from the check to the wait: the thread's last error, whether a communicator may
 * be used now, an operation's place in the order of the caller's streams, and a wait that the program may interrupt.
 */
#ifndef HP_ENTRY_H
#define HP_ENTRY_H

#include "lib/baton.h"
#include "lib/comm.h"
#include "lib/request.h"

/* Keeps the error as this thread's last one (on comm); returns its code. */
hoop_result hp_entry_fail(const hoop_comm *comm, const hoop_error *error);
/* The same of a call that a failed communicator takes: hoop_comm_error tells this, and not why that has failed. */
hoop_result hp_entry_fail_later(const hoop_comm *comm, const hoop_error *error);
/* Likewise, of a code and a sentence. */
hoop_result hp_entry_refuse(const hoop_comm *comm, hoop_result code, const char *text);

/* The kept error of comm, else this thread's last one on it (NULL: on any); cleared where there is none. */
void hp_entry_error(const hoop_comm *comm, hoop_error *error);

/* HOOP_SUCCESS, or: NULL, a forked child's, or the communicator's kept error. */
hoop_result hp_entry_check(const hoop_comm *comm);

/*
 * HOOP_SUCCESS, or HOOP_ERR_INVALID_USAGE: this thread is in a function of hoop_work_on_done, and `call`, which begins
 * the sentence, may wait, or be of a group.
 */
hoop_result hp_entry_may_wait(const hoop_comm *comm, const char *call);

/*
 * A collective has ended with `result` before it was started; this thread's error has the reason. The server is
 * informed if the reason is the call itself: an argument, its memory, want of memory. It is not if the call was only
 * made at the wrong moment: a group is open, the process has forked; nor of a message, in which no
 * other rank waits as in an operation. Returns the result.
 */
hoop_result hp_entry_unstarted(hoop_comm *comm, const hp_call *call, hoop_result result);

/* What a receive has got, and from whom. */
typedef struct hp_receipt {
    int known, peer;
    size_t count; /* in elements */
} hp_receipt;

/* Of a work that has ended: 1 with *out filled; 0: it is not one receive. */
int hp_entry_receives(const hoop_work *work, hp_receipt *out);

/* This thread has seen the end of a work; if that is a receive, hp_entry_received tells of it. */
void hp_entry_note_received(const hoop_work *work);
const hp_receipt *hp_entry_received(void);

/* A GPU that fails while a call is started ends the communicator: the other ranks have started that call. */
hoop_result hp_entry_fail_start(hoop_comm *comm, hoop_error *error);

/*
 * Before works are submitted: those on a GPU will start after what its default stream holds now. After an error the
 * works of the list are free again.
 */
hoop_result hp_entry_order(hoop_comm *comm, hoop_work *first);

/*
 * Before a work is submitted, which was made of a call on these arrays, with work->device set: marks what the stream
 * holds now, and blocks the stream until the work is complete, also by an error. Nobody has a handle of the work. After
 * an error, which is this thread's, the work is free again.
 */
hoop_result hp_entry_on_stream(hoop_comm *comm, hoop_work *work, const void *send, const void *recv, void *stream);

/*
 * hp_progress_until with visits (visit.h). interruptible: or until the program interrupts it, and what is waited for is over
 * then all the same. 1: it is over.
 */
int hp_entry_wait(hp_waiter *waiter, uint64_t deadline, int interruptible);

/* Submits the one work of a blocking call and attends it; the thread has entered. Its result. */
hoop_result hp_entry_wait_call(hoop_comm *comm, hoop_work *work);

#endif
