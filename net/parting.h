/* SPDX-License-Identifier: MIT */
/*
 * parting: the end of a stripe at a rank that leaves. Where the stripe is repaired, the rank first asks (HP_TAKEN), until it
 * knows that the peer needs nothing more of it: what a proxy or this system has acknowledged may still be lost, and must be
 * sent again then. Afterwards it says LEAVE, and closes the connection when that is delivered.
 */
#ifndef HP_PARTING_H
#define HP_PARTING_H

#include "net/stripe.h"

void hp_parting_ask(hp_stripe *stripe);
/*
 * Whether the peer needs nothing more: it has answered, or left. After a second a sound connection on which its system has
 * acknowledged all is enough: the peer may compute, and answer only much later. That takes five seconds where it may be a
 * proxy that has acknowledged it. A broken connection that the peer is to make again is not awaited if it never carried a
 * byte; for a second if the peer has asked, since it leaves then, and only needs the answer; and for as long as a
 * host may be away if the peer alone sends there.
 */
int hp_parting_is_free(const hp_stripe *stripe, uint64_t waited, uint64_t peer_timeout, int proxied);

void hp_parting_shut(hp_stripe *stripe);  /* writes and watches nothing more */
int hp_parting_closed(hp_stripe *stripe); /* 1: the peer has all that was written, or has closed; drops what arrives */

#endif
