/* SPDX-License-Identifier: MIT */
/*
 * link_state: what a link (link.h) and its stripes (stripe.h) share: the posts, how far they are, and what is wrong. The
 * owner of the link reads it; link.c and the files below it write it.
 */
#ifndef HP_LINK_STATE_H
#define HP_LINK_STATE_H

#include "net/frame.h"
#include "net/iov.h"

enum { HP_STRIPES_MAX = 16, HP_TICK_ROOM = 8 * HP_HEARTBEATS_BYTES };

typedef struct hp_stripe hp_stripe;

typedef enum hp_link_state {
    HP_LINK_WANTED,  /* no connection yet: posts wait, somebody must dial or be dialled */
    HP_LINK_DIALING, /* the owner is at it */
    HP_LINK_OPEN,
    HP_LINK_LEFT,  /* the peer said LEAVE and closed */
    HP_LINK_LOST,  /* end of file or reset without a word: a symptom */
    HP_LINK_FAULT, /* mismatch, protocol or corruption seen here: error has the sentence */
    HP_LINK_ABORT  /* the peer passed on a first cause: error is that cause */
} hp_link_state;

typedef struct hp_post {
    hp_frame frame; /* what is sent, or what must come */
    uint32_t bytes; /* payload */
    hp_iov body;
    int pages; /* the body lies, in one piece, in library pages that nobody rewrites before this is done: may leave without a copy */
    int done;
} hp_post;

typedef struct hp_link {
    int sending;    /* 1: to the next, 0: from the previous */
    int self, peer; /* ranks, for sentences */
    int distance;
    int size;          /* of the ring, where the owner says so: an ABORT names no other ranks */
    int stripes;       /* K */
    uint32_t capacity; /* posts in flight at most; a power of two */
    uint32_t zerocopy; /* pages from this many bytes on leave without a copy; 0: none. The peer has agreed */
    hp_post *posts;
    uint64_t posted, done;
    uint64_t bytes; /* payload moved, for reports and stragglers */
    hp_link_state state;
    hoop_error error;
    uint8_t *tick; /* payloads of TICK that have come, for the owner, who sets tick_n to 0; NULL: they are not kept */
    size_t tick_n;
    hp_stripe *stripe[HP_STRIPES_MAX];
} hp_link;

#endif
