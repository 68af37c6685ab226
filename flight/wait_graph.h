/* SPDX-License-Identifier: MIT */
/*
 * wait_graph: for which process the others wait in the end. Pure. Each process waits for one other at most, in the call
 * that it made first, so whoever follows the waits comes to a process that waits for nobody, and holds up the others; or
 * goes round a circle, which stays if all calls are blocking. The server builds the graph from reports (whereabouts), and
 * who reads recorders from files (ring).
 */
#ifndef HP_WAIT_GRAPH_H
#define HP_WAIT_GRAPH_H

#include <stdint.h>

typedef enum hp_wait_call { HP_IN_OPERATION, HP_IN_SPLIT, HP_IN_MESSAGE } hp_wait_call;

/* Where one process waits, and for whom. Processes have the caller's numbers, from 0. */
typedef struct hp_wait_edge {
    const void *at;    /* the caller's own record of it; NULL: the process waits nowhere */
    int whom;          /* the process that it awaits; -1: it waits nowhere, or for nobody in particular */
    int is_last;       /* 1: that one is not followed: it is stopped, has ended, or has done its part */
    int failed;        /* 1: the call has failed: the process waited in it until then */
    int ring;          /* a number, the greater the younger the ring is */
    hp_wait_call kind; /* of the call, and its number; of a message the rank that waits */
    uint64_t number;
    uint64_t since;
} hp_wait_edge;

/*
 * Takes this wait of a process instead of the one that is known, if that is less likely: a process that has ended was in
 * what failed, any other one is in what has not; of several it is in what it called first.
 */
void hp_wait_graph_note(hp_wait_edge *known, const hp_wait_edge *wait, int ended);

typedef struct hp_wait_finding {
    int waiter; /* the last process on the way that awaits one; of a circle the one in its oldest call; -1: there is none */
    int culprit; /* whom that one awaits; the first one, if that awaits nobody */
    int hops;    /* from process to process; of a circle as many as showed it */
    int circle;  /* processes in the circle to which the way leads; 0: it ends */
    int closed;  /* 1: the first process is in that circle */
} hp_wait_finding;

/* waits: by process. */
hp_wait_finding hp_wait_graph_follow(const hp_wait_edge *waits, int first);

#endif
