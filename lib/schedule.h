/* SPDX-License-Identifier: MIT */
/*
 * schedule: what one ring position does at step i of an operation: pure, O(1), no sockets, no memory. schedule.c's head
 * has the row tables.
 *
 * Two laws hold for every algorithm and carry the proofs:
 *   lag       what a rank sends as step i, the rank `to` positions further receives as its step i + S;
 *   announce  step 0 sends to the next rank unconditionally, step S receives it. So every rank sees its neighbour's
 *             call at once, and ranks that disagree never wait for each other in silence.
 *
 * Exchanges do not announce. Let some ranks call a small allreduce that is an exchange, and others something else. If that
 * announces itself, somewhere on the ring such a rank sends to one that exchanges, and that one finds a head which it does
 * not await (lib/fault.c). If it is another exchange, there is a first round in which a rank of one kind is the
 * partner of one of the other kind; both reach it, and compare their frames.
 */
#ifndef HP_SCHEDULE_H
#define HP_SCHEDULE_H

#include "lib/plan.h"

enum {
    HP_STEP_RECV = 1,        /* recv_count elements come from `from` */
    HP_STEP_REDUCE = 2,      /* combined with `in` of the user's sendbuf */
    HP_STEP_LOAD = 4,        /* send_count elements of sendbuf at `in` go out */
    HP_STEP_COPY = 8,        /* the result goes to recvbuf at `out` */
    HP_STEP_SEND = 16,       /* send_count elements go to `to` */
    HP_STEP_DIVIDE = 32,     /* the reduction is complete here: AVG's division */
    HP_STEP_OWN = 64,        /* own.count elements of sendbuf at own.in are also copied to recvbuf at own.out */
    HP_STEP_GATHERED = 256,  /* halves: all parts are in the stage, they go to recvbuf */
    HP_STEP_LEFT = 512,      /* doubling: what is received is the left operand of the reduction */
    HP_STEP_EXCHANGE = 1024, /* doubling: both ranks send and receive; one connection serves both directions */
    HP_STEP_STAGED = 128     /* spread, doubling, halves, all-pairs: bytes live in the gather buffer */
};

/* One rank's elements: where they begin in sendbuf and in recvbuf. */
typedef struct hp_own {
    uint64_t in, out, count;
} hp_own;

typedef struct hp_step {
    uint16_t flags;
    uint8_t recv_first, send_first; /* the operation's first frame on that link: it carries the whole call */
    int from, to;                   /* distances on the ring, 1 ... n-1 */
    uint64_t recv_count, send_count;
    uint32_t came, had;  /* a reduction: ranks whose data is in what is received, and in what is here */
    uint32_t round;      /* halves: of this round, 1 ... L; came and had are hp_halves_ranks of each part */
    uint64_t in, out;    /* element offsets in sendbuf and recvbuf */
    hp_own own;          /* all-pairs: the part that this rank sums */
    uint64_t stage_send; /* halves, doubling, all-pairs: sends begin here in the stage */
    uint64_t stage_into; /* halves: a reduction's result, or the loaded vector's beginning, goes here; all-pairs: the
                            parts to be summed begin here, by the distance of the rank that they come from */
    uint64_t stage_recv; /* element offset in the gather buffer of what is received; a spread's sends start at 0 */
} hp_step;

/* Step i of plan at ring position `position`; order[position] = rank (n entries). */
hp_step hp_schedule_at(const hp_plan *plan, const int *order, int position, uint64_t i);

/* Halves: ranks whose data is in part i of the stage's vector when `round` rounds have been reduced; i < s(round). */
uint32_t hp_halves_ranks(int size, uint32_t round, uint64_t i);

/* The furthest distance of the k-th exchange of an alltoall, k = 0 ... n-2: 1, n-1, 2, n-2 ... */
int hp_pair_distance(int size, uint32_t k);

#endif
