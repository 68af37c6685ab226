/* SPDX-License-Identifier: MIT */
/* ring: the recorders of a collection, put together to communicators, rank by rank; and where each rank is. Pure. */
#ifndef HP_FLIGHT_RING_H
#define HP_FLIGHT_RING_H

#include "flight/collection.h"

typedef struct hp_flight_member {
    const hp_flight_entry *entry;
    const hp_flight_record *last;    /* the newest collective; NULL: there is none */
    const hp_flight_record *stuck;   /* the oldest collective that has not ended, or ended with an error; NULL: none */
    const hp_flight_record *message; /* likewise of messages */
    uint64_t latest;                 /* when it called, moved data, or ended a call; a time of the recorder; 0: never */
} hp_flight_member;

typedef struct hp_flight_ring {
    hp_flight_member *member; /* by rank; some may be missing */
    int count, size;
    int at_work; /* 1: a rank has done so just now, and none is stopped, ended or failed */
    int job;     /* the first ring of its job: rings that share a process, or by way of others, are of one */
    int counts;  /* 0: other jobs live, or are newer */
} hp_flight_ring;

typedef struct hp_flight_rings {
    hp_flight_member *member; /* of all of them */
    hp_flight_ring *ring;     /* by age: first that whose first recorder was made first */
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

int hp_flight_same_process(const hp_flight_entry *a, const hp_flight_entry *b);

#endif
