/* SPDX-License-Identifier: MIT */
/*
 * step: what one rank does in one step of an operation: what it receives, adds, and sends, in elements and distances on
 * the ring. schedule.c and levels.c fill it in.
 */
#ifndef HP_STEP_H
#define HP_STEP_H

#include <stdint.h>

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
    HP_STEP_WHOLE = 2048,    /* levels: what is sent is complete, so it is in recvbuf, too, at `in` */
    HP_STEP_PACKED = 4096,   /* levels: what is sent and received is in the wire's type */
    HP_STEP_STAGED = 128     /* spread, doubling, halves, all-pairs, levels: bytes live in the gather buffer */
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
    uint32_t came, had;    /* a reduction: ranks whose data is in what is received, and in what is here */
    uint32_t round;        /* halves: of this round, 1 ... L; came and had are hp_halves_ranks of each part */
    uint64_t in, out;      /* element offsets in sendbuf and recvbuf */
    hp_own own;            /* all-pairs, levels: the part that this rank sums */
    uint64_t stage_send;   /* halves, doubling, all-pairs: sends begin here in the stage */
    uint64_t stage_into;   /* halves: a reduction's result, or the loaded vector's beginning, goes here; all-pairs: the
                            own elements where they are rounded, and the result; levels: the parts to be summed, by rank of
                            the host, or by host */
    uint64_t stage_recv;   /* element offset in the gather buffer of what is received; a spread's sends start at 0 */
    int members, self;     /* levels: vectors of a sum, the own one among them, and which of them is the own one; */
    const int *numbers;    /* and in order, their numbers one after the other; NULL: 0, 1, 2 ... */
    uint64_t stage_sum;    /* levels: the result goes here, as the array's type; all-pairs: the part that comes from
                            distance d begins d parts behind it */
    uint64_t stage_packed; /* and what goes to other hosts here, as the wire's */
} hp_step;

#endif
