/* SPDX-License-Identifier: MIT */
/*
 * grow: processes that wait for a ring to grow, the newcomers of a job, and the group of a grow: a split of all ranks into
 * one ring, which takes in those that wait when it is complete. Pure.
 */
#ifndef HP_GROW_H
#define HP_GROW_H

#include "rendezvous/job_state.h"

/* A newcomer waits. It is refused if its process waits already. */
hoop_result hp_grow_wait(hp_job *job, hp_job_conn *conn, const hp_join *join, uint64_t now, hoop_error *error);

/*
 * The group is complete: the newcomers become its last ranks. Returns how many there are. Those that have other settings
 * than the group are refused.
 */
int hp_grow_take(hp_job *job, hp_join_group *group, uint64_t now);
/* How many processes wait, if the job has no ring left, nor one that is not yet complete; else 0. */
int hp_grow_stranded(const hp_job *job);
/* Nobody can grow any more: those that wait get the cause. */
void hp_grow_end(hp_job *job, const hoop_error *cause, uint64_t now);
/* Without a word. */
void hp_grow_free(hp_job *job);

#endif
