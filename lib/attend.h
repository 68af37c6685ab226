/* SPDX-License-Identifier: MIT */
/* attend: waits for works which the program may interrupt: then this rank ends the communicator, and the works with it. */
#ifndef HP_ATTEND_H
#define HP_ATTEND_H

#include "lib/baton.h"

/* hp_progress_until, or until the program interrupts it: what is waited for is over then all the same. 1: it is over. */
int hp_attend(hp_waiter *waiter, uint64_t deadline);

/* Submits the one work of a blocking call and attends it; the thread has entered. Its result. */
hoop_result hp_attend_call(hoop_comm *comm, hoop_work *work);

#endif
