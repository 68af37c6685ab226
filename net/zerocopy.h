/* SPDX-License-Identifier: MIT */
/*
 * zerocopy: the posts of one sending stripe that left without a copy and have not landed: their pages are referenced
 * until the peer says how many such posts it has taken in all.
 */
#ifndef HP_ZEROCOPY_H
#define HP_ZEROCOPY_H

#include "net/link_state.h"
#include "net/pipe.h"

typedef struct hp_zerocopy {
    hp_pipe pipe;
    int state;                   /* 0 not tried, 1 open, -1 refused */
    uint64_t sent, acknowledged; /* posts sent by reference, and those that the peer has taken */
    uint64_t oldest;             /* number of the first one that has not landed */
} hp_zerocopy;

void hp_zerocopy_init(hp_zerocopy *zerocopy);
void hp_zerocopy_free(hp_zerocopy *zerocopy);

/* Whether this post leaves by reference; the pipe is made when the first one does. */
int hp_zerocopy_wanted(hp_zerocopy *zerocopy, const hp_link *link, const hp_post *post);

/* Post `number` has left by reference. */
void hp_zerocopy_sent(hp_zerocopy *zerocopy, uint64_t number);

/* The peer has taken `count` in all: they are done. next: the first post not yet sent. 0 if so many never left. */
int hp_zerocopy_acknowledged(hp_zerocopy *zerocopy, hp_link *link, uint64_t count, uint64_t next);

#endif
