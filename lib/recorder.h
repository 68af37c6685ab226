/* SPDX-License-Identifier: MIT */
/*
 * recorder: writes a communicator's flight recorder (flight/format.h): what was called, what came, and what is awaited.
 * It costs an operation two readings of the clock and some stores, and no system call. A communicator without a recorder
 * does nothing here. Baton holder only, except as noted.
 */
#ifndef HP_RECORDER_H
#define HP_RECORDER_H

#include "lib/comm.h"

/*
 * Where there is no room for a recorder, the communicator has none. The first rank of a host warns, for its first such
 * communicator.
 */
void hp_recorder_open(hoop_comm *comm);

/* Removes it, unless the communicator has failed. */
void hp_recorder_close(hoop_comm *comm);

/* Works `first` to `last` are called now. Under the driver's mutex. */
void hp_recorder_call(hoop_comm *comm, hoop_work *first, const hoop_work *last);

/* A work starts; it ends. */
void hp_recorder_enter(hoop_comm *comm, hoop_work *work);
void hp_recorder_leave(hoop_comm *comm, hoop_work *work);

/* What the oldest operation waits for, and the oldest works of messages. */
void hp_recorder_wait(hoop_comm *comm, hp_awaited awaited);
void hp_recorder_wait_messages(hoop_comm *comm);

/*
 * A hoop_comm_split begins; it has ended well. One that fails is never ended: what is left behind shows it. For the thread
 * that calls it.
 */
void hp_recorder_split(hoop_comm *comm, int begins);

/* The communicator has failed, with the kept error. */
void hp_recorder_fail(hoop_comm *comm);

/* The time of what the belts and the messages move now: when the clock was read last. */
static inline uint64_t
hp_recorder_clock(const hoop_comm *comm)
{
    uint64_t looked = hp_loop_looked(comm->loop);
    return looked > comm->recorder.clock ? looked : comm->recorder.clock;
}

#endif
