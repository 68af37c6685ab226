/* SPDX-License-Identifier: MIT */
/* process: which process wrote a recorder, and what has become of it; by /proc. */
#ifndef HP_FLIGHT_PROCESS_H
#define HP_FLIGHT_PROCESS_H

#include "flight/format.h"

typedef enum hp_flight_state {
    HP_FLIGHT_UNKNOWN, /* it is of another host, or of another pid namespace */
    HP_FLIGHT_RUNS,
    HP_FLIGHT_STOPPED, /* by a signal, or by a debugger */
    HP_FLIGHT_ENDED,
    HP_FLIGHT_MOVES /* it has called, ended a call, or moved data between two readings of its recorder */
} hp_flight_state;

/* Sets pid, started, pid_space and both clocks of this process. */
void hp_flight_sign(hp_flight_head *head);

/* Whether there is a process of this number that has not ended. */
int hp_flight_exists(uint32_t pid);

/* Whether that process is stopped, by a signal or by a debugger. */
int hp_flight_is_stopped(uint32_t pid);

/* What has become of the process that signed. A process of the same pid that was started later is another one. */
hp_flight_state hp_flight_look(const hp_flight_head *head);

#endif
