/* SPDX-License-Identifier: MIT */
/*
 * ring: the recorders of a collection, put together to communicators, rank by rank; and where each process waits, and for
 * whom. Pure. A rank that is late may wait itself: in another communicator for one that is late there, in hoop_comm_split
 * for one that has not called it, in a message for its peer. A communicator at work holds up nobody. What ended by an error
 * was waited in until then, so waits can be followed after a time-out, too.
 */
#ifndef HP_FLIGHT_RING_H
#define HP_FLIGHT_RING_H

#include "flight/collection.h"
#include "flight/wait_graph.h"

typedef struct hp_flight_member {
    const hp_flight_entry *entry;
    const hp_flight_record *last;    /* the newest collective; NULL: there is none */
    const hp_flight_record *stuck;   /* the oldest collective that has not ended, or ended with an error; NULL: none */
    const hp_flight_record *message; /* likewise of messages */
    uint64_t latest;                 /* when it called, moved data, or ended a call; a time of the recorder; 0: never */
    int process;                     /* the same number in all its communicators */
} hp_flight_member;

typedef struct hp_flight_ring {
    hp_flight_member *member; /* by rank; some may be missing */
    int count, size;
    int at_work; /* 1: a rank has done so just now, and none is stopped, ended or failed */
    int job;     /* the first ring of its job: rings that share a process, or by way of others, are of one */
    int counts;  /* 0: other jobs live, or are newer */
} hp_flight_ring;

/* Where a process waits. */
typedef struct hp_flight_place {
    const hp_flight_ring *ring;
    const hp_flight_member *member;  /* there; NULL: it waits in no call, or is stopped or has ended */
    const hp_flight_record *record;  /* the call; NULL: in hoop_comm_split, or it has failed in no call */
    int splits;                      /* 1: in hoop_comm_split */
    int over;                        /* 1: it has failed there */
    const hp_flight_member *awaited; /* for whom; NULL: nobody in particular */
} hp_flight_place;

typedef struct hp_flight_rings {
    hp_flight_member *member; /* of all of them */
    hp_flight_ring *ring;     /* by age: first that whose first recorder was made first */
    hp_flight_place *place;   /* by process */
    hp_wait_edge *wait;       /* by process: the same as a graph */
    int count;
    int others; /* jobs that do not count */
} hp_flight_rings;

/* The collection must outlive the rings. 0: out of memory. */
int hp_flight_rings_make(hp_flight_rings *rings, const hp_flight_collection *all);
void hp_flight_rings_free(hp_flight_rings *rings);

/* Its name, of the first rank that has one; empty: none has. */
const char *hp_flight_ring_name(const hp_flight_ring *ring);

/* The collective with this sequence, or NULL. */
const hp_flight_record *hp_flight_find(const hp_flight *flight, uint64_t sequence);

/* A time of a recorder in ns since 1970; and how many seconds before the recorder was read that was. */
uint64_t hp_flight_date(const hp_flight_entry *entry, uint64_t time);
double hp_flight_ago(const hp_flight_entry *entry, uint64_t time);

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

/* A chain that leads into a circle without its first rank has no end: then it ends at once. */
hp_flight_chain hp_flight_follow(const hp_flight_rings *rings, const hp_flight_ring *ring, const hp_flight_member *m);

/* Whether another communicator of its process is at work. */
int hp_flight_works_elsewhere(const hp_flight_rings *rings, const hp_flight_member *m);

#endif
