/* SPDX-License-Identifier: MIT */
/*
 * ping: which ranks of a running ring get a PING. A rank that waits learns from it that the server is there; one that others
 * wait for need not answer, but its host takes the bytes, or does not.
 */
#ifndef HP_PING_H
#define HP_PING_H

#include "base/clock.h"
#include "rendezvous/blame.h"

#define HP_ASK_AFTER HP_SEC /* of a stall: then absent ranks get a PING */

typedef struct hp_pings {
    uint64_t waiting; /* when the ranks in an operation were last sent one */
    uint64_t absent;  /* the `moved` of the stall for which the others were sent one, HP_ASK_AFTER ns later */
} hp_pings;

/* While ranks are in an operation; limit: of ns without progress. */
void hp_pings_send(hp_pings *pings, const hp_ring_view *view, uint64_t limit, uint64_t now);

#endif
