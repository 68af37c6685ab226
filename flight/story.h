/* SPDX-License-Identifier: MIT */
/*
 * story: what the recorders of a job say, in one sentence: which ranks wait for which, and since when. Pure: it depends
 * on the recorders alone. Recorders of ranks that go on were read moments apart, so only what such ranks called counts, not
 * who is late. Of several jobs only those that live
 * count, or else the newest one.
 */
#ifndef HP_FLIGHT_STORY_H
#define HP_FLIGHT_STORY_H

#include "flight/ring.h"

typedef enum hp_flight_plot {
    HP_FLIGHT_WELL,       /* nothing waits, or something moves on */
    HP_FLIGHT_MESSAGES,   /* a message waits for its peer */
    HP_FLIGHT_INSIDE,     /* all ranks are in the same operation */
    HP_FLIGHT_LATE,       /* some have not called what others wait in */
    HP_FLIGHT_SPLIT,      /* some are in hoop_comm_split, and others are not */
    HP_FLIGHT_CROSSED,    /* ranks wait for each other in a circle: they make calls in different orders */
    HP_FLIGHT_DIFFERENCE, /* ranks have called different operations as the same one */
} hp_flight_plot;

typedef struct hp_flight_story {
    hp_flight_plot plot;
    const hp_flight_ring *ring;  /* the communicator that it is about; NULL: there is no recorder */
    const hp_flight_member *end; /* who holds up the others, in whatever communicator; NULL: none, or not known */
    int late;                    /* its rank in `ring`; -1: it is not there; also that of a rank without a recorder */
    uint64_t difference;         /* the first operation that ranks called differently; 0: none */
    int moves;                   /* ranks of a communicator go on, of which nothing else is told */
    int others;                  /* jobs of which nothing is told */
    char text[1024];
} hp_flight_story;

void hp_flight_tell(const hp_flight_rings *rings, hp_flight_story *story);

#endif
