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

/*
 * The error that ends the overdue wait of `rank`: it names the rank for which the others wait; where none is missing, the
 * one whose limit it was, because such a limit ends also an operation that progresses. unreachable: see hp_blame_find.
 */
void hp_limit_overrun(const hp_witness *witnesses, const hp_member *members, int n, int rank, uint64_t unreachable,
                      uint64_t now, hoop_error *error);

#endif
