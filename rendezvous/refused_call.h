/* SPDX-License-Identifier: MIT */
/*
 * refused_call: calls that ranks have refused, each with the number its operation would have had; pure. The others may wait
 * in that operation for it, and then they would wait for ever; or it makes a right call of it in time, and nobody is
 * harmed.
 */
#ifndef HP_REFUSAL_H
#define HP_REFUSAL_H

#include "rendezvous/blame.h"

typedef struct hp_refusal {
    hp_unstarted said;
    int pending;    /* the rank has started no operation since */
    uint64_t since; /* when another rank was first seen to wait for it; 0: none does */
} hp_refusal;

/* All zero: none. */
typedef struct hp_refusals {
    int pending;
    hp_refusal **of; /* by rank: the last one of each; NULL until there is one */
} hp_refusals;

/* The rank, of `size`, has refused a call. Where memory runs out it is forgotten: the time-out decides then. */
void hp_refusals_note(hp_refusals *refusals, int size, int rank, const hp_unstarted *said);

/* The rank has started or finished operations up to this number after all. */
void hp_refusals_withdraw(hp_refusals *refusals, int rank, uint64_t sequence);

/*
 * A rank whose refused operation others have waited in for a second; -1: none. Who refused the operation of that number
 * itself is in another one now, unless it is of the same kind, count and type; whose call is another kind's is too: they
 * do not count.
 */
int hp_refusals_due(hp_refusals *refusals, const hp_witness *witnesses, int size, uint64_t now);

/* "rank 1 (node2) could not start operation 7 (barrier): sendbuf is NULL", as the error that all ranks get. */
void hp_refusals_print(const hp_refusals *refusals, const hp_member *who, hoop_error *error);

void hp_refusals_free(hp_refusals *refusals, int size);

#endif
