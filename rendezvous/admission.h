/* SPDX-License-Identifier: MIT */
/*
 * admission: which proven connections may enter a job, and why one that is let in gets no place. Pure. Room that may come
 * back in a moment is waited for (HP_BUSY: dial again). Where it does not, a few ranks are let in all the same: their JOIN
 * fails its group, so that every rank hears at once which limit it was.
 */
#ifndef HP_ADMISSION_H
#define HP_ADMISSION_H

#include "rendezvous/job_state.h"

enum { HP_RINGS_PER_RANK = 256 }; /* connections of one rank: one for each communicator */

/*
 * Whether a proven connection may enter; job NULL: it is the job's first. HP_FULL: its ranks cannot need so many. lacking:
 * for how long the server has had no descriptor for it; 0: it has one.
 */
hp_status hp_admission_judge(hp_job *job, const hp_hello *hello, uint64_t lacking, uint64_t now);
/* Whether a connection that was let in gets no place; with the error filled. */
int hp_admission_lacks(const hp_job_conn *conn, hoop_error *error);
/* How many of a job's ranks may connect at once from one address: as many as it declares, if enough of them are proven. */
int hp_admission_expects(const hp_job *job);
/* The connections of one job: three quarters of the server's descriptors, so that other jobs find some. */
int hp_admission_share(void);

#endif
