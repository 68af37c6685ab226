/* SPDX-License-Identifier: MIT */
/*
 * limit: how long the ranks of a ring wait at most, by their reports: the shortest op time-out of those in an operation,
 * and waits with a limit of their own that are overdue. Pure.
 */
#ifndef HP_LIMIT_H
#define HP_LIMIT_H

#include "rendezvous/blame.h"

/* ns without progress; joined: for ranks that have set no other, 0: none. HP_NEVER: no rank in an operation has one. */
uint64_t hp_limit_shortest(const hp_witness *witnesses, int n, uint64_t joined);

/* A rank in an operation whose wait is overdue; -1: none is. */
int hp_limit_overdue(const hp_witness *witnesses, int n);

#endif
