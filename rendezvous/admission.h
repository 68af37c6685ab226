/* SPDX-License-Identifier: MIT */
/*
 * admission: which proven connections may enter a job, why one that is let in gets no place, which JOINs the job's rings
 * rule out, and which are of a rank that was connected before. Pure. Room that may come
 * back in a moment is waited for (HP_BUSY: dial again). Where it does not, a few ranks are let in all the same: their JOIN
 * fails its group, so that every rank hears at once which limit it was.
 */
#ifndef HP_ADMISSION_H
#define HP_ADMISSION_H

#include "rendezvous/job_state.h"

enum {
    HP_RINGS_PER_RANK = 256, /* connections of one rank: one for each communicator */
    HP_SPLITS_AHEAD = 64     /* how many splits a rank may be ahead of the slowest one */
};

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

/* Whether a JOIN is what the connection has declared in its handshake. */
int hp_admission_declared(const hp_job_conn *conn, const hp_join *join);
/* Whether a JOIN may go to a join group; else the reason, for the rank. */
hoop_result hp_admission_join(const hp_job *job, const hp_join *join, hoop_error *error);

/*
 * A rank whose control connection was reset has dialled again. A member of the ring sends JOIN with the ring's number; one
 * that has not heard of its ring yet sends its first JOIN once more, with the same number of its own. The server may not
 * have noticed the end of the connection before.
 */

/* The rank of this ring that sends this JOIN again, connected or away; -1: none. */
int hp_comeback_find(const hp_roster *roster, const hp_join *join);
hoop_result hp_comeback_refuse(const hp_join *join, hoop_error *error); /* no ring here is that of this JOIN */
/* It is connected again, and gets what it may have missed: its roster, GO or the verdict. */
void hp_comeback_take(hp_roster *roster, int rank, void *peer, const hp_join *join, uint64_t now);

#endif
