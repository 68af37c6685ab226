/* SPDX-License-Identifier: MIT */
/*
 * stream_watchdog: a thread that releases callers' streams when the driver's thread cannot. A thread of the caller may
 * wait, inside the GPU's driver, for room in a stream that is blocked by an operation. It holds a lock of the GPU's
 * driver meanwhile, and the thread that drives the operation gets stuck on it. This thread needs neither the baton nor
 * the GPU's driver: it polls four times a second, ends the communicator by time-out, and opens the gates of its
 * streams.
 */
#ifndef HP_STREAM_WATCHDOG_H
#define HP_STREAM_WATCHDOG_H

#include "lib/comm.h"

/* Before the first stream is blocked; without memory for a thread no thread watches. Idempotent, any thread. */
void hp_stream_watchdog_start(hoop_comm *comm);
void hp_stream_watchdog_stop(hoop_comm *comm);

#endif
