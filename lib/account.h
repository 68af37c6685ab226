/* SPDX-License-Identifier: MIT */
/*
 * account: what a communicator keeps account of. The flight recorder (flight/format.h) has what was called, what came, and
 * what is awaited; it costs an operation two readings of the clock and some stores, and no system call. The counters are
 * for hoop_comm_stats: bytes, messages, the time that operations were in progress and what they waited for. A communicator
 * without a recorder writes nothing, and takes no times. Baton holder only, except as noted.
 */
#ifndef HP_ACCOUNT_H
#define HP_ACCOUNT_H

#include "lib/comm.h"

/* A work starts; it ends, with work->result. */
void hp_account_enter(hoop_comm *comm, hoop_work *work);
void hp_account_leave(hoop_comm *comm, hoop_work *work);

/* --- the flight recorder --- */

/*
 * Where there is no room for a recorder, the communicator has none. The first rank of a host warns, for its first such
 * communicator.
 */
void hp_recorder_open(hoop_comm *comm);

/* Works `first` to `last` are called now. Under the driver's mutex. */
void hp_recorder_call(hoop_comm *comm, hoop_work *first, const hoop_work *last);

/* What the oldest operation waits for, and the oldest works of messages. */
void hp_recorder_wait(hoop_comm *comm, hp_awaited awaited);
void hp_recorder_wait_messages(hoop_comm *comm);

/*
 * A hoop_comm_split begins; it has ended well. One that fails is never ended: what is left behind shows it. For the thread
 * that calls it.
 */
void hp_recorder_split(hoop_comm *comm, int begins);

/* The time of what the belts and the messages move now: when the clock was read last. */
static inline uint64_t
hp_recorder_clock(const hoop_comm *comm)
{
    uint64_t looked = hp_loop_looked(comm->loop);
    return looked > comm->recorder.clock ? looked : comm->recorder.clock;
}

/* --- counters --- */

/* A wait for this begins, and for this rank or -1. None is open. */
void hp_counters_wait(hp_counters *counters, hp_awaited awaited, uint64_t now);

/* It ends, if one is open. */
void hp_counters_end_wait(hp_counters *counters, uint64_t now);

/* An operation has moved: the wait is over. */
static inline void
hp_counters_moved(hp_counters *c)
{
    if (c->awaited.what)
        hp_counters_end_wait(c, hp_now());
}

/* ns since the last operation ended; 0: one is in progress, or none was called. Any thread. */
static inline uint64_t
hp_counters_outside(const hp_counters *c)
{
    uint64_t ended = hp_count_read(&c->ended);
    return ended ? hp_now() - ended : 0;
}

/* What is known of the server's clock now. */
void hp_counters_set_clock(hp_counters *counters, const hp_clock_offset *clock);

/*
 * The times of calls that were added, and what is known of the clock, with its error now: a reader, any thread, never
 * sees a part of a change, and does not wait for one to end.
 */
hp_entry_times hp_counters_times(const hp_counters *counters, int64_t *clock_offset, uint64_t *clock_error);

/* The rank that was waited for longest, and for how many ns; -1: none was. */
int hp_counters_slowest(hp_counters *counters, uint64_t *ns);

/* --- when a rank has called, by the server's clock: pure --- */

/*
 * Clocks of machines drift apart, so a time is corrected when it is added, by what is known of the clocks then: its error
 * does not grow with the job. A time from before the first comparison of the clocks is added when they are compared.
 */
void hp_call_times_add(hp_call_times *times, uint64_t called);

/* The clocks were compared. */
void hp_call_times_compared(hp_call_times *times, const hp_clock_offset *clock);

#endif
