/* SPDX-License-Identifier: MIT */
/*
 * failure: keeps the ranks' last words and finds which rank's end is the cause of the job's. Says it once. Stops nobody:
 * that is job.c's part.
 */
#ifndef HP_LAUNCH_FAILURE_H
#define HP_LAUNCH_FAILURE_H

#include "launch/output.h"
#include "launch/verdict.h"

typedef struct hp_failure_rank {
    int running;
    uint64_t shown; /* hp_output_shown after its last error output */
    hp_buffer stderr_tail;
} hp_failure_rank;

typedef struct hp_failure {
    hp_failure_rank *rank; /* by rank */
    int size, running;
    hp_rank_exit first; /* of the rank that failed first; rank -1: none has */
    char *ring;         /* why the ring failed, in the rendezvous server's words; NULL: it has not */
    int ring_worked;    /* it had stood, and failed in an operation */
    int ring_judged;    /* by what its ranks have done: the sentence names who is to blame, whatever follows */
    int reported;
} hp_failure;

void hp_failure_open(hp_failure *failure, int size);
void hp_failure_started(hp_failure *failure, int rank);
void hp_failure_stderr(hp_failure *failure, int rank, const uint8_t *bytes, size_t n,
                       uint64_t shown); /* on standard error */
/*
 * Where several communicators fail: who is late, or calls something else, is to blame, and the first such sentence stays;
 * ranks that vanish or abort after another failure follow from it. Else the last one counts.
 */
void hp_failure_ring_failed(hp_failure *failure, const hoop_error *cause);

/* 1 when this is the first that failed: others may fail at the same moment, so speak a moment later. */
int hp_failure_exited(hp_failure *failure, const hp_rank_exit *ending);

/*
 * Says the verdict once, with the last words when they are not on the screen (hidden: they went to a file), and why the
 * ring failed: the one that failed first is often not the one to blame. Last, so that the last line names the one that
 * is; only where ranks did not meet, and this one has said why, it is not said again.
 */
void hp_failure_report(hp_failure *failure, hp_output *output, int hidden);
void hp_failure_close(hp_failure *failure);

#endif
