/* SPDX-License-Identifier: MIT */
/*
 * shrink: a ring has failed, its parent, and those of its ranks that are left form a ring with the next epoch. Pure. The
 * group of a shrink is complete when every rank of the parent has joined or is gone: it has left, its process has ended,
 * or its host is silent. A rank that is late is awaited until the time of the others is up; then they go on without it.
 * Of one parent only one ring ever runs.
 */
#ifndef HP_SHRINK_H
#define HP_SHRINK_H

#include "rendezvous/job_state.h"

/* STALE_EPOCH: the others have gone on, as this epoch. */
void hp_shrink_stale(uint32_t epoch, hoop_error *error);
/* Refuses a SHRINK of a ring that is not here, and of one whose other ranks have gone on. */
hoop_result hp_shrink_admit(const hp_job *job, const hp_join *join, hoop_error *error);
/* The label of a new group, and the epoch of its ring. */
void hp_shrink_open(const hp_job *job, hp_join_group *group);
/* After a JOIN that was taken: if it shrinks a ring that has not failed yet, it ends that. */
void hp_shrink_end(const hp_job *job, const hp_join *join);
/* Excuses those that are gone. Returns whether the group is complete. */
int hp_shrink_is_complete(const hp_job *job, hp_join_group *group, uint64_t now);

/* Notes the rings that run, in their parents; fails a group that has come too late for one. */
void hp_shrink_note(const hp_job *job);
void hp_shrink_check(const hp_job *job, hp_join_group *group, uint64_t now);
/* A parent is needed as long as a group of its ranks is incomplete: it knows whether others have gone on. */
int hp_join_groups_need(const hp_job *job, const hp_roster *parent);

/* "ranks 1 and 3 have not called hoop_comm_shrink of the whole job; 2 ranks have waited 5.0 s" */
void hp_shrink_print(const hp_roster *parent, const hp_join_group *group, uint64_t now, char *out, size_t size);

#endif
