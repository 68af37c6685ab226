/* SPDX-License-Identifier: MIT */
/*
 * wait_rings: a job by hand, for tests of the chains of its waits. A ring is written as its processes, "ABCD"; a process that
 * waits is told as "B:D", B waits for D. The time is second RINGS_AT.
 */
#ifndef T_WAIT_RINGS_H
#define T_WAIT_RINGS_H

#include "rendezvous/whereabouts.h"

enum { RINGS = 6, RINGS_SIZE = 8, RINGS_AT = 100 };

typedef struct rings_ring {
    hp_roster roster;
    hp_member members[RINGS_SIZE];
    hp_witness witnesses[RINGS_SIZE];
    hp_loss losses[RINGS_SIZE]; /* none */
    void *peers[RINGS_SIZE];    /* all are connected */
    char processes[RINGS_SIZE + 1];
    hp_join_group split; /* of this ring; without joined ranks: there is none */
    hp_joined joined[RINGS_SIZE];
    uint64_t has_joined;
} rings_ring;

extern rings_ring rings[RINGS];
extern int rings_n;
extern hp_job rings_job;
extern char rings_stopped; /* the process that is known to be stopped; 0: none is, '?': nothing is known of any */

void rings_begin(void);

/* The first one is the whole job. It has stood still since second 90, each later one for a tenth of a second less. */
rings_ring *rings_add(const char *processes);

int rings_rank_in(const rings_ring *ring, char process); /* -1: it is no member */

/* "B:D C:D": in operation 7 of the whole job, in 1 of the first split, and so on. */
void rings_wait(rings_ring *ring, const char *story);

/* These are in the ring's first split, since second 95, each a tenth of a second later than the one before. */
void rings_split(rings_ring *ring, const char *processes);

/* "B:D": B has waited for 4 seconds in a recv from D; D may be '-', B's own device. */
void rings_receive(rings_ring *ring, const char *story);

/* The ring's operation, its split, or the message of one process. */
hp_wait_place rings_operation(const rings_ring *ring);
hp_wait_place rings_split_of(const rings_ring *ring);
hp_wait_place rings_message_of(const rings_ring *ring, char process);

#endif
