/* SPDX-License-Identifier: MIT */
/*
 * hold_up: the sentence about the rank for which the others of a ring wait, wherever in the job it waits itself, and the
 * errors that end such waits. Pure.
 */
#ifndef HP_HOLD_UP_H
#define HP_HOLD_UP_H

#include "rendezvous/wait_chain.h"

/*
 * The rank to which "waits for" leads from those that wait, and a sentence; nothing has moved for `stalled` ns. If that rank
 * waits in another ring, the one that is to blame there; rank -1: it is not in this ring.
 */
hp_blame hp_hold_up_find(const hp_whereabouts *where, const hp_roster *r, uint64_t stalled, char *out, size_t size);

/* The sentence alone, of a ring of which it is known that the rank waits in no other. */
void hp_hold_up_here(const hp_whereabouts *where, const hp_roster *r, uint64_t stalled, char *out, size_t size);

/*
 * The error TIMEOUT of a ring whose time is up (hp_roster_tick). If nothing has moved for too long, it names the rank for
 * which the others wait. If the wait of one rank is overdue, it names that rank where none is missing, because such a limit
 * ends also an operation that progresses.
 */
void hp_hold_up_timeout(const hp_whereabouts *where, const hp_roster *r, uint64_t now, hoop_error *error);

/*
 * A message of error->reporter has timed out, and it asks for the cause: if the rank that it awaits waits elsewhere itself,
 * the error has the whole chain. Otherwise the rank knows best.
 */
void hp_hold_up_message(const hp_whereabouts *where, const hp_roster *r, uint64_t now, hoop_error *error);

/* Adds to a sentence which ranks are unreachable, "; rank 2 is unreachable", unless `named`, whom it is about, is one; -1: nobody. */
void hp_hold_up_add_away(const hp_roster *r, int named, char *text, size_t size);

#endif
