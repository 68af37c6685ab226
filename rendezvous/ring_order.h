/* SPDX-License-Identifier: MIT */
/* ring_order: how the ranks of a ring follow each other; pure. */
#ifndef HP_RING_ORDER_H
#define HP_RING_ORDER_H

#include "rendezvous/message.h"

/* Ranks of one host next to each other, hosts by their lowest rank, ranks by number. 0: out of memory. */
int hp_ring_arrange(hp_ring *ring);
int hp_ring_hosts(const hp_ring *ring); /* how many, of a ring in order */

#endif
