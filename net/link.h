/* SPDX-License-Identifier: MIT */
/*
 * link: one directed neighbour: K stripes (TCP connections) that carry posts in order. A post is one slice to receive
 * or to send; post i travels on stripe i mod K. Two counters that only grow, `posted` and `done`, are all the belt
 * looks at. A link may stand before it is connected: posts wait. Errors are kept here, with their sentence, and read by
 * lib/comm.c.
 *
 * Memory handed to a post is the link's until the post is done.
 */
#ifndef HP_LINK_H
#define HP_LINK_H

#include "net/frame.h"
#include "net/iov.h"
#include "net/loop.h"

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

/* capacity posts; NULL when memory runs out. Starts HP_LINK_WANTED. */
hp_link *hp_link_new(int sending, int self, int peer, int distance, int stripes, uint32_t capacity);

/* A proven connection for stripe k; OPEN when all K are there. The descriptor is the link's, also after an error. */
hoop_result hp_link_attach(hp_link *link, int k, int fd, hp_loop *loop, void (*kick)(void *arg), void *arg,
                           hoop_error *error);

/* Whether stripe k is still to come, or came and has not carried a byte: another connection may take its place. */
int hp_link_is_fresh(const hp_link *link, int k);

/* Whether a post can no longer be completed because the stripe that carries it has ended. */
int hp_link_is_stuck(const hp_link *link);

/* In a forked child: closes the descriptors and nothing else. */
void hp_link_abandon(const hp_link *link);

/* Appends a post; returns its number + 1: it is done when link->done reaches that. Never fails, never blocks. */
uint64_t hp_link_post(hp_link *link, const hp_frame *frame, void *data, uint32_t bytes, int pages);

/* The same where the payload lies in several places, which stay as they are until the post is done. */
uint64_t hp_link_post_iov(hp_link *link, const hp_frame *frame, const hp_iov *pieces, uint32_t bytes);

/* Moves what can be moved now without blocking; 1 if anything moved. */
int hp_link_move(hp_link *link);

/* A TICK to the peer of a receiving link. 0: not taken, what was told before is still on its way. */
int hp_link_tick(hp_link *link, const uint8_t *ticks, size_t n);
void hp_link_keep_tick(hp_link *link, const uint8_t *ticks, size_t n); /* one has come; stripe.c's */

/* Before the driver sleeps: watch exactly the directions in which something is awaited. */
void hp_link_arm(hp_link *link);

/*
 * After a fault: tells the peer the first cause, if a frame boundary allows it now (best effort, never blocks), writes
 * and moves nothing more. Posts stay undone; their memory is free to use.
 */
void hp_link_stop(hp_link *link, const hoop_error *cause);

/* LEAVE and no more writing; hp_link_closed turns 1 when all that was written has arrived or the peer has closed. */
void hp_link_leave(hp_link *link);
int hp_link_closed(hp_link *link);
void hp_link_free(hp_link *link);

#endif
