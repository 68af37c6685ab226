/* SPDX-License-Identifier: MIT */
/* hold_up: the sentence about the rank for which the others of a ring wait. Pure. */
#ifndef HP_HOLD_UP_H
#define HP_HOLD_UP_H

#include "rendezvous/ring_view.h"

/* The rank to which "waits for" leads from those that wait, and a sentence; nothing has moved for `stalled` ns. */
hp_blame hp_hold_up_find(const hp_ring_view *view, uint64_t stalled, char *out, size_t size);

/* The error TIMEOUT: nothing has moved for too long. */
void hp_hold_up_timeout(const hp_ring_view *view, uint64_t now, hoop_error *error);

/* The error RENDEZVOUS: of `size` ranks that have joined, only those `n` whose bit is set are connected. */
void hp_hold_up_links(const uint64_t *connected, int n, int size, hoop_error *error);

#endif
