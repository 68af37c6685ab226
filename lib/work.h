/* SPDX-License-Identifier: MIT */
/*
 * work: one operation: arguments, plan, what is left to do, how it ended. works.c owns all works of a communicator.
 */
#ifndef HP_WORK_H
#define HP_WORK_H

#include "flight/format.h"
#include "gpu/gpu.h"
#include "lib/pair.h"
#include "lib/place.h"
#include "net/post.h"

#include <stdatomic.h>

enum {
    HP_CHANNELS_MAX = 8,
    /*
     * from this size of a tensor on, recvmsg and sendmsg with a list of places cost less than a command that copies
     * (measured)
     */
    HP_PIECE_BYTES = 2048
};

/* The bits of a work's state. Each is set once, and tells the threads that set the others what is left to do. */
enum {
    HP_WORK_ENDED = 1,    /* its result is valid, and its buffers are the caller's */
    HP_WORK_CLAIMED = 2,  /* hoop_work_on_done sets its function, */
    HP_WORK_CALLS = 4,    /* has set it, */
    HP_WORK_RETURNED = 8, /* and the function has been called */
    HP_WORK_FREED = 16,   /* the caller has no handle: the work is free again when it is done */
    HP_WORK_AWAITED = 32  /* a thread sleeps, or has slept, until it is done: `waiter` */
};

struct hoop_work {
    hoop_comm *comm;
    hp_call call;
    uint32_t signature;
    uint64_t sequence;    /* counted from 1 */
    int calls;            /* public calls that it does: more than 1 when fused */
    hp_segment one;       /* the usual single segment ... */
    hp_segment *segments; /* ... points at it, or at the array */
    size_t segment_count;
    size_t near;    /* the segment that was found last: the next element asked for mostly lies in it or the next */
    uint32_t piece; /* a slice whose tensors have fewer bytes than this on average goes through slots */
    hp_place_options place;
    int device;      /* index of the queue its commands go to: 0 host, 1 CUDA */
    float *residual; /* the caller's, of as many elements: what rounding for the wire takes away; NULL: none */
    hp_gate *gate;   /* holds the caller's stream until this work is complete */
    hp_mark *mark;   /* the end of what that stream held before: no step is worked on until the stream has passed it */
    int reached;     /* a belt has seen that the stream has passed the mark */

    uint32_t channels; /* channels it uses: 0 ... channels-1 */
    uint32_t channels_left;
    hoop_work *next; /* inbox, running list, list of those whose function is due, free list */
    atomic_int state;
    hoop_result result;
    hoop_done_fn *fn; /* of hoop_work_on_done */
    void *fn_arg;

    hp_flight_record record; /* account.c's */

    /* messages between two ranks; then it uses no channel */
    hp_message one_message; /* the usual single message ... */
    hp_message *messages;   /* ... points at it, or at the array; NULL: it has none */
    size_t message_count, messages_left;
    int alltoallvs;      /* among them, each of which has a number */
    int grouped;         /* they are of a group: no getter tells of what they receive */
    hoop_work *after;    /* the last collective of the same group: this work is not complete before that one */
    hoop_work *previous; /* running list */

    /* hp_work_pool_take clears the fields above this one, up to offsetof(hoop_work, waiter) */
    struct hp_waiter *waiter;  /* baton.h's: who is woken when it is done; NULL: nobody; under the driver's mutex */
    hp_segment *array;         /* a group's segments, from the communicator's free list until the work is complete */
    size_t segment_room;       /* in the array */
    hp_message *message_array; /* as many as were ever needed */
    size_t message_room;
    hoop_work *made_before; /* all works of the communicator, freed with it */
    hp_block *blocks;       /* one of each rank, if the work is for calls with counts; else NULL */
    hp_plan plan[HP_CHANNELS_MAX];
    uint8_t *stage[HP_CHANNELS_MAX]; /* its gather buffer, while it has one */
    uint64_t rooms[HP_CHANNELS_MAX]; /* all-pairs: slots of the stage that steps hold, a bit each */
    hoop_work *next_in[HP_CHANNELS_MAX];
};

/* The operation has ended, and its function, if it has one, has returned: from here on only the caller uses the work. */
static inline int
hp_work_is_done(int state)
{
    int ended = HP_WORK_ENDED | HP_WORK_CALLS | HP_WORK_RETURNED;
    return (state & ended) == HP_WORK_ENDED || (state & ended) == ended;
}

/* A part of its data has come, or gone, at a time by the recorder's clock. */
static inline void
hp_work_moved(hoop_work *work, uint64_t now)
{
    if (!work->record.first)
        work->record.first = now;
    work->record.last = now;
}

/* Whether the caller's stream, if there is one, has reached the work; `queue` is one of the work's device. */
int hp_work_is_reached(hoop_work *work, hp_queue *queue);

/* Address of element `at` of a side, and how many elements from there are contiguous. */
uint8_t *hp_work_at(hoop_work *work, hp_side side, uint64_t at, uint64_t *run);

/* Where `count` elements from `at` lie. */
hp_iov hp_work_iov(hoop_work *work, hp_side side, uint64_t at, uint64_t count);

/* A step's place: straight from and to the caller's tensors, unless its bytes lie in too many small ones. */
hp_placement hp_work_place(hoop_work *work, const hp_plan *plan, const hp_step *step);

/* One segment, the usual case. */
void hp_work_single(hoop_work *work, const void *send, void *recv);

#endif
