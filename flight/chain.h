/* SPDX-License-Identifier: MIT */
/*
 * chain: for whom a rank waits, followed from communicator to communicator, by the recorders alone. A rank that is late may
 * wait itself: in another communicator for one that is late there, in hoop_comm_split for one that has not called it, in a
 * message for its peer. Who is at the end holds up the others; or the chain comes back to where it began. A communicator at
 * work holds up nobody. Pure.
 */
#ifndef HP_FLIGHT_CHAIN_H
#define HP_FLIGHT_CHAIN_H

#include "flight/ring.h"

/* --- ranks of a ring, by a property; n is the number of an operation, a split or a rank, if it needs one --- */

typedef int hp_flight_is(const hp_flight_member *m, uint64_t n);

/* NULL: there is none. */
const hp_flight_member *hp_flight_first(const hp_flight_ring *ring, hp_flight_is *is, uint64_t n);

int hp_flight_is_behind(const hp_flight_member *m, uint64_t sequence); /* has not called the operation */
int hp_flight_has_rank(const hp_flight_member *m, uint64_t rank);
int hp_flight_splits(const hp_flight_member *m, uint64_t unused); /* is in hoop_comm_split, or failed there */
int hp_flight_has_not_split(const hp_flight_member *m, uint64_t number);
int hp_flight_has_died(const hp_flight_member *m,
                       uint64_t unused); /* ended, and the communicator had not failed there */

/* The rank whose process does not run, if others do, or ended by an error that it brought about; NULL: there is none. */
const hp_flight_member *hp_flight_find_gone(const hp_flight_ring *ring);

/* --- the chain --- */

/* Where a process waits. */
typedef struct hp_flight_place {
    const hp_flight_ring *ring;
    const hp_flight_member *member; /* there; NULL: it waits in no call, or is stopped or has ended */
    const hp_flight_record *record; /* the call; NULL: in hoop_comm_split, or it has failed in no call */
    int splits;                     /* 1: in hoop_comm_split */
    int over;                       /* 1: it has failed there */
} hp_flight_place;

typedef struct hp_flight_chain {
    hp_flight_place first;       /* where the first rank waits */
    const hp_flight_ring *ring;  /* of */
    const hp_flight_member *end; /* the last rank; the first one itself, if it waits for nobody */
    hp_flight_place last;        /* where that one waits: nobody to follow */
    int hops;                    /* from rank to rank */
    int circle;                  /* 1: the last one waits for the first one */
} hp_flight_chain;

/* The rank for which a message waits: of a group, the peer of the message that holds it up, if that is known; -1: none. */
int hp_flight_peer_of(const hp_flight_record *r);

/* The rank for which the process waits there; NULL: nobody in particular. */
const hp_flight_member *hp_flight_awaited(const hp_flight_place *place);

/* A chain that leads into a circle without its first rank has no end: then it ends at once. */
hp_flight_chain hp_flight_follow(const hp_flight_rings *rings, const hp_flight_ring *ring, const hp_flight_member *m);

/* Whether another communicator of its process is at work. */
int hp_flight_works_elsewhere(const hp_flight_rings *rings, const hp_flight_member *m);

#endif
