/* SPDX-License-Identifier: MIT */
/*
 * half_split: a split, or grow, that was over for some ranks of a ring when the server died, and not for others. Pure. Rings
 * are begun one by one, and all ranks of one that has begun have their links there. So the ranks that join again, to a server
 * that was started again, get rings among themselves.
 */
#ifndef HP_HALF_SPLIT_H
#define HP_HALF_SPLIT_H

#include "rendezvous/job_state.h"
#include "rendezvous/statement.h"

/* As the rank says, this split of the ring and those before are over for it. */
void hp_half_split_over(hp_roster *parent, int rank, uint32_t split);
/* A rank that waits in a split of a ring that is known again is asked, as its own connection to that ring may be broken. */
void hp_half_split_ask(hp_job_conn *conn);
/* A rank says so, of its ring or of the one that it splits. */
void hp_half_split_hear(const hp_job_conn *conn, const hp_statement *said);
int hp_half_split_is_over(const hp_job *job, const hp_join_group *group); /* for any rank, as far as is known */
/* Whether all ranks have joined it, but for those for which it is over. */
int hp_half_split_is_complete(const hp_job *job, hp_join_group *group);
/* A ring that some of its ranks have begun to use, and left, as they say, begins for the others as well. */
void hp_half_split_begin(const hp_job *job, uint64_t now);
/* Whether a rank that refuses this split may mean the next one of this ring: for no rank it is known to be over. */
int hp_half_split_is_next(const hp_roster *parent, uint32_t split);

#endif
