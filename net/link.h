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

#include "net/link_state.h"
#include "net/loop.h"

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
