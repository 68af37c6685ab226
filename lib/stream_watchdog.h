/* SPDX-License-Identifier: MIT */
/*
 * stream_watchdog: a thread that sees to it that callers' streams go on. Whoever drives may be stuck in the GPU's driver, which a
 * thread of the caller's keeps to itself while it waits for room in a stream that waits for us: then only somebody who
 * needs neither the baton nor the driver can end that. It looks a few times a second, and acts when it must.
 */
#ifndef HP_STREAM_WATCHDOG_H
#define HP_STREAM_WATCHDOG_H

#include "lib/comm.h"

/* Before the first stream is stopped; without memory for a thread there is no guard. Idempotent, any thread. */
void hp_stream_watchdog_start(hoop_comm *comm);
void hp_stream_watchdog_stop(hoop_comm *comm);

#endif
