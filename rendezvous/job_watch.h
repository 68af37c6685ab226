/* SPDX-License-Identifier: MIT */
/*
 * job_watch: what shows only where all rings and meetings of a job are looked at together; pure. The hall asks it at
 * every tick, and, once a standstill was spoken of, at every event: the ring may be over before the next tick.
 */
#ifndef HP_JOB_WATCH_H
#define HP_JOB_WATCH_H

#include "rendezvous/roster.h"
#include "rendezvous/stall_warning.h"

/* Of one job. All zero: nothing was said. */
typedef struct hp_overseer {
    hp_stall_warning warning; /* of one ring at a time, however many are stalled */
    uint64_t ring;            /* its communicator */
} hp_overseer;

/*
 * Warns of a world that is not complete after five seconds, with those who are missing, and says when it is. Asked at
 * every tick, and when the last rank has come.
 */
void hp_job_watch_start(hp_join_group *join_group, uint64_t now);

/* Warns of the ring that stands still for longest, one at a time, and says when it goes on. */
void hp_job_watch_stall(hp_overseer *overseer, const hp_roster *rosters, const hp_events *events, uint64_t now);

/*
 * A rank is in a split, and another one, which has not come to it, in an operation that the first has not started: neither
 * will ever go on. Where that is so for half a second, the ring of both fails.
 */
void hp_job_watch_cross(hp_join_group *join_groups, hp_roster *rosters, uint64_t now);

#endif
