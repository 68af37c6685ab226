/* SPDX-License-Identifier: MIT */
/*
 * job_watch: what shows only where all rings and meetings of a job are looked at together; pure. The hall asks it at
 * every tick, and, once a standstill was spoken of, at every event: the ring may be over before the next tick.
 */
#ifndef HP_JOB_WATCH_H
#define HP_JOB_WATCH_H

#include "rendezvous/job.h"

/*
 * Warns of a world that is not complete after five seconds, with those who are missing, and says when it is. Asked at
 * every tick, and when the last rank has come.
 */
void hp_job_watch_start(hp_job *job, hp_join_group *join_group, uint64_t now);

/* Warns of the ring that stands still for longest, one at a time, and says when it goes on. */
void hp_job_watch_stall(hp_job *job, uint64_t now);

/*
 * A rank is in a split, and another one, which has not come to it, in an operation that the first has not started: neither
 * will ever go on. Where that is so for half a second, the ring of both fails.
 */
void hp_job_watch_cross(hp_job *job, uint64_t now);

#endif
