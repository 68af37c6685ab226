/* SPDX-License-Identifier: MIT */
/*
 * call_times: adds up when a rank has called, by the server's clock; pure. Clocks of machines drift apart, so a time is
 * corrected when it is added, by what is known of the clocks then: its error does not grow with the job. A time from
 * before the first comparison of the clocks is added when they are compared.
 */
#ifndef HP_CALL_TIMES_H
#define HP_CALL_TIMES_H

#include "rendezvous/lateness.h"

/* All zero at first. */
typedef struct hp_call_times {
    hp_entry_times known;                /* by the server's clock */
    uint64_t early, sum, earliest, last; /* not added yet, by this host's clock: how many, their sum modulo 2^64 */
    hp_clock_offset clock;
} hp_call_times;

void hp_call_times_add(hp_call_times *times, uint64_t called);

/* The clocks were compared. */
void hp_call_times_compared(hp_call_times *times, const hp_clock_offset *clock);

#endif
