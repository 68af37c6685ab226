/* SPDX-License-Identifier: MIT */
/*
 * work: one operation: arguments, plan, what is left to do, how it ended. work_pool.c owns all works of a communicator.
 */
#ifndef HP_WORK_H
#define HP_WORK_H

#include "gpu/gpu.h"
#include "lib/place.h"
#include "net/iov.h"

#include <stdatomic.h>

enum {
    HP_CHANNELS_MAX = 8,
    /*
     * from this size of a tensor on, recvmsg and sendmsg with a list of places cost less than a command that copies
     * (measured)
     */
    HP_PIECE_BYTES = 2048
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
    int device;    /* index of the queue its commands go to: 0 host, 1 CUDA */
    hp_gate *gate; /* holds the caller's stream until this work is complete */
    hp_mark *mark; /* the end of what that stream held before: no step is worked on until the stream has passed it */
    int reached;   /* a belt has seen that the stream has passed the mark */
    int detached;  /* the caller has no handle: the work is free again when it is complete */

    uint32_t channels; /* channels it uses: 0 ... channels-1 */
    uint32_t channels_left;
    hoop_work *next; /* inbox, running list, free list */
    atomic_int done;
    hoop_result result; /* valid once done */

    /* hp_work_pool_take clears the fields above this one, up to offsetof(hoop_work, array) */
    hp_segment *array;      /* a group's segments, from the communicator's free list until the work is complete */
    size_t segment_room;    /* in the array */
    hoop_work *made_before; /* all works of the communicator, freed with it */
    hp_plan plan[HP_CHANNELS_MAX];
    uint8_t *stage[HP_CHANNELS_MAX]; /* its gather buffer, while it has one */
    hoop_work *next_in[HP_CHANNELS_MAX];
};

/* Address of element `at` of a side, and how many elements from there are contiguous. */
uint8_t *hp_work_at(hoop_work *work, hp_side side, uint64_t at, uint64_t *run);

/* Where `count` elements from `at` lie. */
hp_iov hp_work_iov(hoop_work *work, hp_side side, uint64_t at, uint64_t count);

/* A step's place: straight from and to the caller's tensors, unless its bytes lie in too many small ones. */
hp_placement hp_work_place(hoop_work *work, const hp_plan *plan, const hp_step *step);

/* One segment, the usual case. */
void hp_work_single(hoop_work *work, const void *send, void *recv);

#endif
