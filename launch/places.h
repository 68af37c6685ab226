/* SPDX-License-Identifier: MIT */
/*
 * places: where the process of each rank runs, and which ranks are started again (--max-restarts), when, and on which host.
 * A rank keeps its number, whatever process has it. Pure.
 */
#ifndef HP_LAUNCH_PLACES_H
#define HP_LAUNCH_PLACES_H

#include "launch/mapping.h"
#include "launch/rank_exit.h"

typedef enum hp_place_state {
    HP_PLACE_TAKEN,    /* a process runs there, or the first one is starting */
    HP_PLACE_DUE,      /* one will be started */
    HP_PLACE_STARTING, /* its host's agent was told to start one, and has not said that it has */
    HP_PLACE_EMPTY     /* the last one has ended */
} hp_place_state;

typedef struct hp_place {
    hp_place_state state;
    int host;       /* in the mapping: where its process runs, or ran last */
    int next;       /* DUE: where it is started */
    uint64_t due;   /* DUE: when */
    uint64_t pause; /* before the last start */
    int restart;    /* which one of all that was; 0: none */
    int moved;      /* that start was on another host than the one before */
} hp_place;

typedef struct hp_places {
    hp_place *rank;
    int size;
    int *room; /* by host: how many processes may run there; 0: none, or it is lost */
    int hosts;
    int most, used; /* restarts that are allowed, and that were promised */
} hp_places;

void hp_places_open(hp_places *places, const hp_mapping *mapping);
void hp_places_close(hp_places *places); /* zeroed memory is fine */

void hp_places_ended(hp_places *places, int rank); /* it is not started again */

/*
 * Its process has failed, `lived` ns after its start, and so many others run, which can take it in. 1: it is started again;
 * 0: no other runs, no restart is left, or no host has a slot.
 */
int hp_places_failed(hp_places *places, int rank, int others, uint64_t lived, uint64_t now);

/*
 * This host is lost. Returns how many ranks that ran there, or were due there, are not started again on another one. A start
 * that did not come about counts only once.
 */
int hp_places_lost(hp_places *places, int host, uint64_t now);

/*
 * Makes the note of its end of what hp_places_failed has decided: "; it is started again in 2 s (restart 3 of 5)", "; no
 * restart is left"; none if no restarts were wanted.
 */
void hp_places_note(const hp_places *places, int others, hp_rank_exit *ended);

/* A rank that is to be started now: it is STARTING then. -1: there is none. */
int hp_places_next(hp_places *places, uint64_t now);
void hp_places_started(hp_places *places, int rank);

/* ns until the next one is due; at most `most`. */
uint64_t hp_places_wait(const hp_places *places, uint64_t now, uint64_t most);

#endif
