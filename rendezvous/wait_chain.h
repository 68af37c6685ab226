/* SPDX-License-Identifier: MIT */
/*
 * wait_chain: for whom a ring waits, followed from ring to ring of its job. Pure. The awaited rank may itself wait in
 * another ring, for a rank of that one; the last of them waits for nobody. Or the rings wait for each other in a circle,
 * because they were called in different orders: no error before the time-out, as other threads may yet make the calls.
 */
#ifndef HP_WAIT_CHAIN_H
#define HP_WAIT_CHAIN_H

#include "rendezvous/roster.h"

typedef struct hp_wait_chain {
    const hp_roster *from, *last; /* the first ring and the last one; of a circle the oldest of its rings */
    const hp_roster *next;        /* where the rank that the first one awaits waits itself; NULL: nowhere */
    hp_blame first, blame;        /* whom the first ring and the last one await */
    int hops;                     /* rings behind the first; 0: the awaited rank waits in no other ring */
    int circle;                   /* rings in the circle to which it leads; 0: it ends */
} hp_wait_chain;

hp_wait_chain hp_wait_chain_find(const hp_roster *rosters, const hp_roster *from);

/* The rank of the first ring that is to blame; -1: none is, it is not a member of that ring. */
int hp_wait_chain_guilty(const hp_wait_chain *chain);

/*
 * If the chain of the ring `comm` leads to another ring: a sentence, the guilty rank, and 1. Else 0. The sentence of a
 * circle is the same for all its rings.
 */
int hp_wait_chain_print(const hp_roster *rosters, uint64_t comm, uint64_t stalled, int *guilty, char *out, size_t size);

/*
 * The other ring in whose operation the process of this rank waits, while ranks of `ring` are in `sequence`, which it has
 * not entered; NULL: none.
 */
const hp_roster *hp_wait_chain_elsewhere(const hp_roster *rosters, const hp_roster *ring, int rank, uint64_t sequence);

enum { HP_RING_TEXT = HP_NAME_TEXT + 2 };

/* "the whole job" or "split 1 colour 0"; a ring that has a name by that, in quotes. Returns out. */
const char *hp_wait_chain_name(const hp_roster *ring, char out[HP_RING_TEXT]);

/*
 * After a time-out of one ring, rings whose chains end at the same place, and whose own time-out is due, too, end with
 * it: else a rank that fails in one of them, and exits, would be blamed in the others.
 */
void hp_wait_chain_fail_others(hp_roster *rosters, const hp_roster *failed, uint64_t now);

#endif
