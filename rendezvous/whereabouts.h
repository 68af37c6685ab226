/* SPDX-License-Identifier: MIT */
/*
 * whereabouts: where the processes of a ring are outside its operations: in another ring, in a split, in a message; and when
 * the server heard of each last, in any ring. Pure.
 */
#ifndef HP_WHEREABOUTS_H
#define HP_WHEREABOUTS_H

#include "rendezvous/census.h"

typedef struct hp_whereabouts {
    hp_stay stay;   /* where it waits for longest, other than in an operation of the ring */
    uint64_t heard; /* 0: never */
    int stopped;    /* its process is */
} hp_whereabouts;

/* By rank of the ring; the caller frees it. NULL: out of memory, or the census only looks. */
hp_whereabouts *hp_whereabouts_find(const hp_census *census, const hp_roster *ring);

enum { HP_WHERE_TEXT = 160 };

/*
 * What a rank of this ring does that waits there: "waits in split 1 colour 0", "in hoop_comm_split 2", "recv of 5 x float32
 * (tag 3)"; of another communicator's split or message with "of "tp"". Returns out.
 */
const char *hp_whereabouts_print(const hp_whereabouts *where, const hp_roster *ring, char out[HP_WHERE_TEXT]);

/* For whom or what it waits there: "data from rank 5", "rank 2 to split", "its stream"; "" if it has no number in this ring. */
const char *hp_whereabouts_waits_for(const hp_whereabouts *where, const hp_roster *ring, char out[HP_WHERE_TEXT]);

#endif
