/* SPDX-License-Identifier: MIT */
/*
 * refused_call: calls that ranks have refused, each with the number its operation would have had; pure. The others may wait
 * in that operation for it, and then they would wait for ever; or it makes a right call of it in time, and nobody is
 * harmed.
 */
#ifndef HP_REFUSAL_H
#define HP_REFUSAL_H

#include "rendezvous/blame.h"

typedef struct hp_refused_call {
    hp_unstarted said;
    int pending;    /* the rank has started no operation since */
    uint64_t since; /* when another rank was first seen to wait for it; 0: none does */
} hp_refused_call;

/* All zero: none. */
typedef struct hp_refused_calls {
    int pending;
    hp_refused_call **of; /* by rank: the last one of each; NULL until there is one */
} hp_refused_calls;

/* The rank, of `size`, has refused a call. Where memory runs out it is forgotten: the time-out decides then. */
void hp_refused_calls_note(hp_refused_calls *refused_calls, int size, int rank, const hp_unstarted *said);

/* The rank has started or finished operations up to this number after all. */
void hp_refused_calls_withdraw(hp_refused_calls *refused_calls, int rank, uint64_t sequence);

/*
 * A rank whose refused operation others have waited in for a second; -1: none. Who refused the operation of that number
 * itself is in another one now, unless it is of the same kind, count and type; whose call is another kind's is too: they
 * do not count.
 */
int hp_refused_calls_due(hp_refused_calls *refused_calls, const hp_witness *witnesses, int size, uint64_t now);

/* "rank 1 (node2) could not start operation 7 (barrier): sendbuf is NULL", as the error that all ranks get. */
void hp_refused_calls_print(const hp_refused_calls *refused_calls, const hp_member *who, hoop_error *error);

void hp_refused_calls_free(hp_refused_calls *refused_calls, int size);

#endif
