/* SPDX-License-Identifier: MIT */
/*
 * place: where a step's bytes live and which commands it needs: pure and symbolic, without a pointer. The belt turns
 * spots into addresses. The five primitives are five fillings of one command; where the host can address the user's
 * memory they shorten: straight from sendbuf, straight into recvbuf, no command.
 */
#ifndef HP_PLACE_H
#define HP_PLACE_H

#include "lib/schedule.h"

/* HP_SLOT, HP_STAGE: elements there of the wire's type; HP_PLAIN: of the array's, which the levels have before those. */
typedef enum hp_where { HP_NOWHERE, HP_SLOT, HP_SENDBUF, HP_RECVBUF, HP_RESIDUAL, HP_STAGE, HP_PLAIN } hp_where;

/* Whether elements there are of the wire's type. */
static inline int
hp_is_packed(hp_where where)
{
    return where == HP_SLOT || where == HP_STAGE;
}

/* An element offset in one of the places; a slot's offset is always 0. */
typedef struct hp_spot {
    hp_where where;
    uint64_t at;
} hp_spot;

/*
 * One device command: value = src[0], or src[0] op src[1]; divided where the step says so; to every dst. ranks[k]: in a
 * reduction, how many ranks' data is in src[k].
 */
typedef struct hp_task {
    int sources, destinations;
    int exchange, divide;
    int remainder; /* dst[1] gets what the rounding to dst[0] has taken away */
    hp_spot src[2], dst[2];
    uint32_t ranks[2];
    uint64_t count;
} hp_task;

enum { HP_TASKS = 2 };

/*
 * A sum over all n ranks' vectors: the own one, and those in the stage, where the one of the rank at distance d back
 * begins at vectors + d * stride. By ring position or, if `ordered`, by rank; then what is narrower than float32 is
 * summed in float32, at `sums` in the stage, and rounded once; so is what travels narrower. Over the levels a plain sum is made
 * at dst[0], and a wide one of hosts where the first vector is that has come. `residual`: what the rounding
 * of the sum to dst[0] takes away is added there. Of the levels it is a sum over the ranks of this host or, with `divide`,
 * over the sums of all hosts. A host's sum has the residual added before it is rounded, and leaves there what that takes.
 * Of two or three destinations of what is narrow dst[1] gets the sum, and hands it to dst[2], and the last of these to dst[0].
 */
typedef struct hp_fold {
    uint64_t count; /* 0: nothing is summed */
    hp_spot own, dst[3], residual;
    int destinations, ordered;
    int divide;     /* the sum is of all ranks: AVG's division */
    hp_where where; /* of the vectors, */
    uint64_t vectors, stride, sums;
    int members, self;  /* levels: so many vectors, each at vectors + its number * stride, and the own one's number; */
    const int *numbers; /* their order; NULL: 0, 1, 2 ... */
} hp_fold;

typedef struct hp_placement {
    hp_spot recv, send;
    int forward; /* the bytes go on as received: sending need not await the commands */
    int held;    /* later steps send what the commands make: nothing is sent before those are done */
    int settled; /* the commands overwrite what earlier steps send: not before all of those have retired */
    int unfold;  /* halves: the n gathered parts go from the stage to recvbuf */
    int tasks;
    hp_task task[HP_TASKS];
    hp_fold fold; /* spread, all-pairs; after the tasks */
} hp_placement;

typedef struct hp_place_options {
    int direct;   /* the host may send from and receive into the user's memory */
    int in_place; /* sendbuf and recvbuf are one array, or the in-place form of a blocked collective */
    int residual; /* the caller has an array for what rounding takes away */
} hp_place_options;

hp_placement hp_place(const hp_plan *plan, const hp_step *step, const hp_place_options *options);

/*
 * The part of a step's reducing task from element `at` on in which each operand holds the data of one number of ranks,
 * with these numbers. The next piece begins where it ends; only the tasks of HALVES have several.
 */
hp_task hp_place_piece(const hp_plan *plan, const hp_step *step, const hp_task *task, uint64_t at);

#endif
