/* SPDX-License-Identifier: MIT */
/*
 * place: where a step's bytes live and which commands it needs: pure and symbolic, without a pointer. The belt turns
 * spots into addresses. The five primitives are five fillings of one command; where the host can address the user's
 * memory they shorten: straight from sendbuf, straight into recvbuf, no command.
 */
#ifndef HP_PLACE_H
#define HP_PLACE_H

#include "lib/schedule.h"

typedef enum hp_where { HP_NOWHERE, HP_SLOT, HP_SENDBUF, HP_RECVBUF, HP_STAGE } hp_where;

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
    hp_spot src[2], dst[2];
    uint32_t ranks[2];
    uint64_t count;
} hp_task;

enum { HP_TASKS = 2 };

typedef struct hp_placement {
    hp_spot recv, send;
    int forward; /* the bytes go on as received: sending need not await the commands */
    int settled; /* the commands overwrite what earlier steps send: not before all of those have retired */
    int unfold;  /* halves: the n gathered parts go from the stage to recvbuf */
    int fold;    /* spread: all n vectors of the stage are reduced into recvbuf at 0 */
    int tasks;
    hp_task task[HP_TASKS];
} hp_placement;

typedef struct hp_place_options {
    int direct;   /* the host may send from and receive into the user's memory */
    int in_place; /* sendbuf and recvbuf are one array, or the in-place form of a blocked collective */
} hp_place_options;

hp_placement hp_place(const hp_plan *plan, const hp_step *step, const hp_place_options *options);

/*
 * The part of a step's reducing task from element `at` on in which each operand holds the data of one number of ranks,
 * with these numbers. The next piece begins where it ends; only the tasks of HALVES have several.
 */
hp_task hp_place_piece(const hp_plan *plan, const hp_step *step, const hp_task *task, uint64_t at);

#endif
