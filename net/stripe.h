/* SPDX-License-Identifier: MIT */
/*
 * stripe: one TCP connection of a link, or of two links that share it, one for each direction. It sends each post, header
 * and payload, in one system call. It receives header and payload the same way, straight to their place, and compares
 * every header with the awaited one before the bytes are used. Control frames go between data frames; a direction
 * without a link carries nothing else.
 *
 * Between two processes that share memory (shm.h) the posts move through that, and the connection carries control frames
 * only. It wakes the other process, and its end is the end of the stripe, once what lies in memory is read.
 */
#ifndef HP_STRIPE_H
#define HP_STRIPE_H

#include "net/link_state.h"
#include "net/loop.h"
#include "net/medium.h"

/*
 * Takes fd over, for the link and for its twin, if it has one. number: this stripe's index k; it carries posts k, k + K
 * ... NULL: out of memory, fd is closed.
 */
hp_stripe *hp_stripe_new(hp_link *link, int number, int fd, hp_loop *loop, void (*kick)(void *arg), void *arg);
int hp_stripe_move(hp_stripe *stripe, const hp_link *link); /* the link's posts, and what is readable; 1: moved */
void hp_stripe_arm(hp_stripe *stripe);
int hp_stripe_send_control(hp_stripe *stripe, int type, const void *payload,
                           size_t n);    /* queues a control frame; 0: no room */
void hp_stripe_shut(hp_stripe *stripe);  /* writes and watches nothing more */
int hp_stripe_closed(hp_stripe *stripe); /* 1: the peer has all that was written, or has closed; drops what arrives */
const hp_frame *hp_stripe_unposted(hp_stripe *stripe); /* see hp_link_unposted */
int hp_stripe_is_fresh(const hp_stripe *stripe);       /* the peer has dialled it, and no byte has arrived */
int hp_stripe_has_ended(const hp_stripe *stripe);      /* end of file or reset */
hp_medium *
hp_stripe_medium(hp_stripe *stripe); /* its measures; and memory that it may be given before any post moves */
void hp_stripe_cut(hp_stripe *stripe);

void hp_stripe_free(hp_stripe *stripe);

#endif
