/* SPDX-License-Identifier: MIT */
/*
 * zerocopy: the posts of one sending stripe that were sent without a copy and are not acknowledged yet: the kernel
 * refers to their pages until the peer says how many such posts it has received in all.
 */
#ifndef HP_ZEROCOPY_H
#define HP_ZEROCOPY_H

#include "net/link_state.h"
#include "net/pipe.h"

typedef struct hp_zerocopy {
    hp_pipe pipe;
    int state;                   /* 0: not tried, 1: open, -1: refused */
    uint64_t sent, acknowledged; /* posts sent without a copy, and those that the peer has acknowledged */
    uint64_t oldest;             /* number of the first one that is not acknowledged */
} hp_zerocopy;

void hp_zerocopy_init(hp_zerocopy *zerocopy);
void hp_zerocopy_free(hp_zerocopy *zerocopy);

/* Whether this post is sent without a copy. The first one opens the pipe. */
int hp_zerocopy_wanted(hp_zerocopy *zerocopy, const hp_link *link, const hp_post *post);

/* Post `number` was sent without a copy. */
void hp_zerocopy_sent(hp_zerocopy *zerocopy, uint64_t number);

/*
 * The peer has acknowledged `count` posts in all: they are done. next: the first post not yet sent. Returns 0 if the
 * peer acknowledges more than were sent.
 */
int hp_zerocopy_acknowledged(hp_zerocopy *zerocopy, hp_link *link, uint64_t count, uint64_t next);

#endif
