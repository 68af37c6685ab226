/* SPDX-License-Identifier: MIT */
/*
 * recall: rings that ranks name, and that this server does not know, because it was started again. Pure. Each rank is asked
 * what it knows of its ring, and one of them for the roster too. A ring of which more than half of the ranks are here, with
 * the same digest, is known again: it is where its ranks say that it is, and those that have not come yet are away, as
 * after a reset. Of rings that are left of one another by shrinks the highest epoch wins.
 */
#ifndef HP_RECALL_H
#define HP_RECALL_H

#include "rendezvous/job_state.h"
#include "rendezvous/statement.h"

/* One connection whose JOIN names a ring that is not known yet. */
typedef struct hp_caller {
    struct hp_caller *next;
    hp_job_conn *conn;
    int rank; /* in that ring */
    hp_member member;
    int told; /* its statement has come */
    hp_statement statement;
    uint64_t until; /* it gives up then, for what it makes of the ring; HP_NEVER: it is a member that comes back */
    hp_control_frame frame; /* its JOIN, */
    uint8_t bytes[];        /* and the payload of that */
} hp_caller;

typedef struct hp_recall hp_recall;

/*
 * Keeps a JOIN that names a ring, or a parent, of the job that is not known; 0: it names none, or its rank cannot tell of it,
 * or memory is short.
 */
int hp_recall_keep(hp_job *job, hp_job_conn *conn, const hp_join *join, const hp_control_frame *frame, uint64_t now);
/* A frame of such a connection, that fits. Returns 0, or -1 with the error filled. */
int hp_recall_message(hp_job_conn *conn, const hp_control_frame *frame, uint64_t now, hoop_error *error);
void hp_recall_forget(hp_job_conn *conn, uint64_t now); /* the connection is closed, or has been answered */

/*
 * Makes known what can be known again, and returns the next of its callers, whose JOIN is to be judged now (it is the owner's
 * to free), or NULL.
 */
hp_caller *hp_recall_next(hp_job *job, uint64_t now);
/* Answers those whose ring has a higher epoch here, and those whose time is up. */
void hp_recall_check(hp_job *job, uint64_t now);
int hp_recall_timed(const hp_job *job); /* whether any time will be up */
/*
 * Whether a rank that has ended may have left before: this server has learned of the ring, has never heard the rank there, and
 * nobody misses or doubts it. One that leaves says so to its neighbours.
 */
int hp_recall_may_have_left(const hp_job *job, const hp_roster *roster, int rank, uint64_t now);
/*
 * Whether a ring still has this process, which so has ended without leaving: one that has not heard it takes that for its end,
 * too. It may have left that ring before the server was started again, which nobody can tell.
 */
int hp_recall_is_awaited(const hp_job *job, const hp_member *who, uint64_t now);
void hp_recall_free(hp_job *job); /* sends nothing */

#endif
