/* SPDX-License-Identifier: MIT */
/*
 * refused_call: calls that ranks have refused, each with the number that its operation would have had. Pure. If the
 * other ranks wait in that operation, they wait for ever, unless the rank makes a right call in time.
 */
#ifndef HP_REFUSED_CALL_H
#define HP_REFUSED_CALL_H

#include "rendezvous/blame.h"

typedef struct hp_refused_call {
    hp_unstarted unstarted;
    int pending;    /* the rank has started no operation since then */
    uint64_t since; /* since when another rank waits for it; 0: none does */
} hp_refused_call;

/* All zero at the start. */
typedef struct hp_refused_calls {
    int pending;
    hp_refused_call **of; /* by rank: its last one, or NULL */
} hp_refused_calls;

/* The rank, of `size`, has refused a call. If memory runs out it is forgotten, and the time-out ends the wait. */
void hp_refused_calls_note(hp_refused_calls *calls, int size, int rank, const hp_unstarted *unstarted);

/* The rank has started or completed operations up to this number after all. */
void hp_refused_calls_withdraw(hp_refused_calls *calls, int rank, uint64_t sequence);

/*
 * A rank whose refused operation other ranks have waited in for a second; -1: none. A waiting rank does not count if
 * its call has another kind, or if it has refused this number itself, unless its call has the same kind, count and
 * type.
 */
int hp_refused_calls_due(hp_refused_calls *calls, const hp_witness *witnesses, int size, uint64_t now);

/* "rank 1 (node2) could not start operation 7 (barrier): sendbuf is NULL", as the error that all ranks get. */
void hp_refused_calls_print(const hp_refused_calls *calls, const hp_member *who, hoop_error *error);

void hp_refused_calls_free(hp_refused_calls *calls, int size);

#endif
