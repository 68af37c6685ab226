/* SPDX-License-Identifier: MIT */
/*
 * standby: a thread for a communicator whose program drives (hoop_comm_fd). While such a program computes for long,
 * reports are not sent and a control connection that was reset is not made again, and the server takes the rank for one
 * that is stopped or gone. So where operations are outstanding and the program has not driven for a tenth of a second,
 * this thread drives one round.
 */
#ifndef HP_STANDBY_H
#define HP_STANDBY_H

#include "lib/comm.h"

/* poll: one round, if no other thread drives. Starts one thread at most; without memory for it there is none. */
void hp_standby_start(hoop_comm *comm, void (*poll)(hoop_comm *comm));
void hp_standby_stop(hoop_comm *comm);

/* Under the driver's mutex: there is something to drive now. */
static inline void
hp_standby_wake(hoop_comm *comm)
{
    if (comm->standby.runs && comm->standby.idle)
        pthread_cond_signal(&comm->standby.wakeup);
}

#endif
