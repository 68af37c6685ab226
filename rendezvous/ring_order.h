/* SPDX-License-Identifier: MIT */
/* ring_order: the order of the ranks in a ring. Pure. */
#ifndef HP_RING_ORDER_H
#define HP_RING_ORDER_H

#include "rendezvous/message.h"

/* Ranks of one host are adjacent, hosts are sorted by their lowest rank, ranks by number. 0: out of memory. */
int hp_ring_arrange(hp_ring *ring);
int hp_ring_hosts(const hp_ring *ring); /* the number of hosts of an ordered ring */

#endif
