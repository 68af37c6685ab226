/* SPDX-License-Identifier: MIT */
/*
 * trial: a collective as a rank makes it: its arrays, the call, and what must be true afterwards. The result is judged by
 * t/sim/answer.c. Nothing else is written: no gap between blocks, no input, nothing behind an array.
 */
#ifndef T_SYS_TRIAL_H
#define T_SYS_TRIAL_H

#include "t/sim/blocks.h"
#include "t/sim/sim.h"

typedef struct trial {
    hp_call call; /* these three are the test's */
    uint64_t seed;
    int in_place;
    int rank, size;
    size_t elem, offset;                /* of the smaller array in the larger one, in elements, if in place */
    size_t sends, recvs;                /* elements of the two arrays */
    uint8_t *send, *recv;               /* the caller's */
    uint8_t *send_before, *recv_before; /* what they were; the latter of the whole array that recv is in */
    hp_block blocks[SIM_RANKS_MAX];     /* of an allgatherv or a reduce_scatterv */
} trial;

/* Arrays with this rank's input, everything else poisoned. */
void trial_make(trial *t, const hoop_comm *comm);
void trial_drop(trial *t);

hoop_result trial_call(const trial *t, hoop_comm *comm, hoop_work **work); /* as sim_call */

/* 1, or 0 after a note. is_untouched: all but the result; once only. */
int trial_result_is_right(const trial *t);
int trial_is_untouched(const trial *t);

/* All of it, blocking: 1, or 0 after a note. Where every rank receives the same bytes, one of them judges them. */
int trial_succeeds(trial *t, hoop_comm *comm);

/* Whether all ranks have received the same bytes in these: a sum of each rank's, compared at all of them. */
int trials_are_identical(const trial *t, size_t trials, hoop_comm *comm);

#endif
