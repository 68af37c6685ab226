/* SPDX-License-Identifier: MIT */
/*
 * zerocopy: the posts of one sending stripe that left without a copy and have not landed: their pages are referenced
 * until the peer says how many such posts it has taken in all.
 */
#ifndef HP_FLIGHT_H
#define HP_FLIGHT_H

#include "net/link.h"
#include "net/pipe.h"

typedef struct hp_flight {
    hp_pipe pipe;
    int state;              /* 0 not tried, 1 open, -1 refused */
    uint64_t flown, landed; /* posts sent by reference, and those that the peer has taken */
    uint64_t oldest;        /* number of the first one that has not landed */
} hp_flight;

void hp_flight_init(hp_flight *flight);
void hp_flight_free(hp_flight *flight);

/* Whether this post leaves by reference; the pipe is made when the first one does. */
int hp_flight_boards(hp_flight *flight, const hp_link *link, const hp_post *post);

/* Post `number` has left by reference. */
void hp_flight_depart(hp_flight *flight, uint64_t number);

/* The peer has taken `count` in all: they are done. next: the first post not yet sent. 0 if so many never left. */
int hp_flight_land(hp_flight *flight, hp_link *link, uint64_t count, uint64_t next);

#endif
