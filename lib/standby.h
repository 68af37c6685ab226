/* SPDX-License-Identifier: MIT */
/*
 * standby: two threads that stand by while a communicator's driver does not come.
 *
 * One is for a communicator whose program drives (hoop_comm_fd). While such a program computes for long, reports are not
 * sent and a control connection that was reset is not made again, and the server takes the rank for one that is stopped or
 * gone. So where operations are outstanding and the program has not driven for a tenth of a second, this thread drives one
 * round.
 *
 * The stream watchdog releases callers' streams when the driver's thread cannot. A thread of the caller may wait, inside
 * the GPU's driver, for room in a stream that is blocked by an operation. It holds a lock of the GPU's driver meanwhile,
 * and the thread that drives the operation gets stuck on it. The watchdog needs neither the baton nor the GPU's driver: it
 * polls four times a second, ends the communicator by time-out, and opens the gates of its streams.
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

/* Before the first stream is blocked; without memory for a thread no thread watches. Idempotent, any thread. */
void hp_stream_watchdog_start(hoop_comm *comm);
void hp_stream_watchdog_stop(hoop_comm *comm);

#endif
