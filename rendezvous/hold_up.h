/* SPDX-License-Identifier: MIT */
/* hold_up: the sentence about the rank for which the others of a ring wait. Pure. */
#ifndef HP_HOLD_UP_H
#define HP_HOLD_UP_H

#include "rendezvous/ring_view.h"

/* What is known of a rank's process, in a stall of so many ns. */
hp_process hp_hold_up_process(const hp_events *events, const hp_member *who, uint64_t stalled);

/*
 * The rank to which "waits for" leads from those that wait, and a sentence; nothing has moved for `stalled` ns. If that rank
 * waits in another ring, the one that is to blame there; rank -1: it is not in this ring.
 */
hp_blame hp_hold_up_find(const hp_ring_view *view, uint64_t stalled, char *out, size_t size);

/* The sentence alone, of a ring of which it is known that the rank waits in no other. */
void hp_hold_up_here(const hp_ring_view *view, uint64_t stalled, char *out, size_t size);

/* The error TIMEOUT: nothing has moved for too long. */
void hp_hold_up_timeout(const hp_ring_view *view, uint64_t now, hoop_error *error);

/*
 * The error that ends the overdue wait of `rank`: it names the rank for which the others wait; where none is missing, the
 * one whose limit it was, because such a limit ends also an operation that progresses.
 */
void hp_hold_up_overrun(const hp_ring_view *view, int rank, uint64_t now, hoop_error *error);

/*
 * A message of `rank` has timed out, and it asks for the cause: 1, and if the rank that it awaits waits elsewhere itself, the
 * error has the whole chain. 0: it is another error, or the limit of one wait, which the rank knows best.
 */
int hp_hold_up_judge(const hp_ring_view *view, int rank, uint64_t now, hoop_error *error);

/* The error RENDEZVOUS: of `size` ranks that have joined, only those `n` whose bit is set are connected. */
void hp_hold_up_links(const uint64_t *connected, int n, int size, hoop_error *error);

/* Adds to a sentence which ranks are unreachable, "; rank 2 is unreachable", unless `named`, whom it is about, is one; -1: nobody. */
void hp_hold_up_add_away(const hp_ring_view *view, int named, char *text, size_t size);

#endif
