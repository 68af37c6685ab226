/* SPDX-License-Identifier: MIT */
/*
 * sweep: removes from this user's folders what jobs that have ended leave behind. A job goes on while one of its processes
 * runs that has a recorder, or an agent of hooprun that has yet to collect its recorders: that has a file PID-JOB.agent.
 */
#ifndef HP_FLIGHT_SWEEP_H
#define HP_FLIGHT_SWEEP_H

#include "flight/folder.h"

/* Removes the recorders of jobs that have ended on this machine, and the sockets of servers that have. One thread calls it. */
void hp_flight_sweep(void);

/*
 * The file of an agent, which has the head of a recorder: while it is there and this process runs, nobody sweeps the
 * recorders of the job.
 */
typedef struct hp_flight_claim {
    char path[HP_FLIGHT_PATH + 128]; /* empty: there is none */
} hp_flight_claim;

/* Where no folder can be made there is no file, and no recorder to keep. */
void hp_flight_claim_make(hp_flight_claim *claim, const char *job);
void hp_flight_claim_end(hp_flight_claim *claim);

#endif
