/* SPDX-License-Identifier: MIT */
/*
 * stripe: one TCP connection of a link. Sends posts as header and payload in one system call, receives header and
 * payload the same way straight to their place, and compares every header with what must come before anybody uses the
 * bytes. The idle direction carries ABORT and LEAVE.
 */
#ifndef HP_STRIPE_H
#define HP_STRIPE_H

#include "net/link_state.h"
#include "net/loop.h"

/* Takes fd over. number: this stripe's index k; it serves posts k, k + K, k + 2K ... NULL: out of memory, fd closed. */
hp_stripe *hp_stripe_new(hp_link *link, int number, int fd, hp_loop *loop, void (*kick)(void *arg), void *arg);
int
hp_stripe_move(hp_stripe *stripe); /* sends or receives posts, and reads the idle direction when it was seen ready */
void hp_stripe_arm(hp_stripe *stripe);
int hp_stripe_tell(hp_stripe *stripe, int type, const void *payload, size_t n); /* a control frame; 0: not taken */
void hp_stripe_shut(hp_stripe *stripe);                                         /* writes and watches nothing more */
int hp_stripe_closed(hp_stripe *stripe);          /* 1 once nothing of ours is on its way; drains what comes */
int hp_stripe_is_fresh(const hp_stripe *stripe);  /* no byte has come */
int hp_stripe_has_ended(const hp_stripe *stripe); /* end of file or reset */
void hp_stripe_abandon(const hp_stripe *stripe);  /* in a forked child: closes the descriptors, touches nothing else */
void hp_stripe_free(hp_stripe *stripe);

#endif
