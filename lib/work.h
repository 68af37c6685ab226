/* SPDX-License-Identifier: MIT */
/*
 * work: one operation on its way: arguments, plan, what is left of it, how it ended. Made from a free list of the
 * communicator, so that a steady program allocates nothing.
 */
#ifndef HP_WORK_H
#define HP_WORK_H

#include "gpu/gpu.h"
#include "lib/place.h"
#include "net/iov.h"

#include <stdatomic.h>

enum {
    HP_CHANNELS_MAX = 8,
    /* bytes of a tensor from which the kernel's scattering and gathering costs less than a command that copies (measured) */
    HP_PIECE_BYTES = 2048
};

struct hoop_work {
    hoop_comm *comm;
    hp_call call;
    uint32_t signature;
    uint64_t sequence;    /* counted from 1 */
    int calls;            /* public calls it stands for: more than 1 when fused */
    hp_segment one;       /* the usual single segment ... */
    hp_segment *segments; /* ... points at it, or at the array */
    size_t segment_count;
    size_t near;    /* the segment that was found last: what is asked for next mostly lies there or in the next */
    uint32_t piece; /* a slice whose tensors have fewer bytes than this on average goes through slots */
    hp_place_options place;
    int device;    /* index of the queue its commands go to: 0 host, 1 CUDA */
    hp_gate *gate; /* a user's stream that stands until this work is complete */
    hp_mark *mark; /* what was in that stream before: no step is worked on until it is passed */
    int reached;   /* it is, as a belt has seen */
    int detached;  /* nobody holds a handle: freed on completion */

    uint32_t channels; /* channels it uses: 0 ... channels-1 */
    uint32_t channels_left;
    hoop_work *next; /* inbox, running list, free list */
    atomic_int done;
    hoop_result result; /* valid once done */

    /* what stands before this starts at nought when a work is used again */
    hp_segment *array;      /* a group's segments, from the communicator's shelf until the work is complete */
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

/* A step's place: straight from and to the tensors only where what it moves lies in pieces large enough for it. */
hp_placement hp_work_place(hoop_work *work, const hp_plan *plan, const hp_step *step);

/* One segment, the usual case. */
void hp_work_single(hoop_work *work, const void *send, void *recv);

#endif
