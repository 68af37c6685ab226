/* SPDX-License-Identifier: MIT */
/*
 * absence: the processes of a job whose control connection broke and that have not dialled again: each is alive, or has
 * ended. Pure. The owner of the job can find out which, by a connection to the process's data listener, and tells the job
 * (hp_job_probed).
 */
#ifndef HP_ABSENCE_H
#define HP_ABSENCE_H

#include "rendezvous/job_state.h"

/* Fills out[] with at most `most` of them, each process once; returns how many. They are valid until the job's next event. */
int hp_absence_list(const hp_job *job, const hp_member **out, int most);

/* Whether both are the same process. */
int hp_absence_same(const hp_member *a, const hp_member *b);

#endif
