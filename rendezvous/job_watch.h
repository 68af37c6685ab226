/* SPDX-License-Identifier: MIT */
/*
 * job_watch: stalls and deadlocks that involve several rings or join groups of one job. Pure. The job calls it at
 * every timer tick and, after a stall warning, at every event: the ring may be over before the next tick.
 */
#ifndef HP_JOB_WATCH_H
#define HP_JOB_WATCH_H

#include "rendezvous/whereabouts.h"

/*
 * Warns of a world that is not complete after five seconds, and of a split after the time of stall warnings, and names the
 * missing ranks; warns once more when it is. Called at every timer tick, and when the last rank has joined.
 */
void hp_job_watch_start(const hp_job *job, hp_join_group *join_group, uint64_t now);

/*
 * Who is missing. "rank 1 (node2) is missing"; "2 are missing" if the server assigns the ranks. Of a split: "rank 1 (node2,
 * pid 811) has not called hoop_comm_split 2 of the whole job, and its process runs; 3 ranks have waited 5.0 s", or where
 * that rank waits instead. Returns out.
 */
const char *hp_job_watch_missing(const hp_whereabouts *where, const hp_join_group *join_group, uint64_t now, char *out,
                                 size_t size);

/* The time of those that wait is up: fails the group, with the sentence about who is missing. */
void hp_job_watch_overdue(const hp_job *job, hp_join_group *join_group, uint64_t now);

/*
 * Warns of a ring whose ranks have joined, while the connections between some of them are not up after five seconds; warns
 * once more when they are. Called at every timer tick, and when the ring is up.
 */
void hp_job_watch_links(hp_roster *roster, uint64_t now);

/* Warns of the ring that is stalled for longest, one at a time, and once more when it makes progress again. */
void hp_job_watch_stall(hp_job *job, uint64_t now);

/*
 * One rank waits in a split, and another one, which has not joined it, in an operation that the first has not
 * started: they wait for each other. After half a second of that their ring fails.
 */
void hp_job_watch_cross(hp_job *job, uint64_t now);

#endif
