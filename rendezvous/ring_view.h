/* SPDX-License-Identifier: MIT */
/* ring_view: what the server knows of the ranks of a ring, for those that judge it. Arrays are by rank. */
#ifndef HP_RING_VIEW_H
#define HP_RING_VIEW_H

#include "rendezvous/blame.h"
#include "rendezvous/events.h"

typedef struct hp_ring_view {
    const struct hp_roster *ring;
    const hp_witness *witnesses;
    const hp_member *members;
    void *const *peers; /* NULL: gone, or away */
    int size;
    uint64_t heartbeat, moved;
    const hp_events *events;
} hp_ring_view;

#endif
