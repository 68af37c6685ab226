/* SPDX-License-Identifier: MIT */
/*
 * crossing: two rings of one job in which ranks wait for each other, because they were called in different orders. Pure.
 * It is no error before the time-out: other threads of those ranks may yet make the calls.
 */
#ifndef HP_CROSSING_H
#define HP_CROSSING_H

#include "rendezvous/roster.h"

/*
 * If the rank for which the ring `comm` waits is in an operation of another ring, which waits for a rank that is in an
 * operation of this one: a sentence with both, the same for both rings, and 1. Else 0.
 */
int hp_crossing_print(const hp_roster *rosters, uint64_t comm, uint64_t stalled, char *out, size_t size);

/* After a time-out of this ring: the ring that crosses it, if its own time-out is due, too, gets the same error. */
void hp_crossing_fail_other(hp_roster *rosters, const hp_roster *failed, uint64_t now);

#endif
