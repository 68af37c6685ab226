/* SPDX-License-Identifier: MIT */
/*
 * roster: one ring at the server, from the moment all its ranks have come until the last has gone; pure: no I/O, no
 * clock of its own. Orders the ring, waits until all links stand, then judges: who vanished, who left too early, who
 * holds up the others. The first cause wins, is told to every other rank, and nothing after it changes it.
 */
#ifndef HP_ROSTER_H
#define HP_ROSTER_H

#include "rendezvous/blame.h"
#include "rendezvous/join_group.h"
#include "rendezvous/link_loss.h"
#include "rendezvous/refused_call.h"

typedef enum hp_roster_state {
    HP_ROSTER_LINKING, /* rosters are out; awaits READY of all */
    HP_ROSTER_RUNNING, /* the ring stands; awaits reports and LEAVE */
    HP_ROSTER_FAILED,  /* the cause is told; awaits that all go */
    HP_ROSTER_OVER     /* all have left in peace */
} hp_roster_state;

typedef struct hp_roster {
    struct hp_roster *next; /* the owner's */
    const hp_events *events;
    char label[64];
    hp_roster_state state;
    int world;             /* 1: a job's first ring, 0: made by a split */
    hp_ring ring;          /* ring.rank is not used */
    void **peers;          /* by rank; NULL: gone, or away */
    hp_witness *witnesses; /* by rank */
    hp_refused_calls refused_calls;
    uint64_t *ready; /* a bit by rank */
    uint32_t splits; /* splits with numbers below this are over */
    int present, ready_n, left_n, in_op_n;
    hp_link_loss losses; /* connections that broke, and ranks that are away */
    hoop_error cause;    /* of FAILED */
    uint64_t op_timeout, warn_after, heartbeat;
    uint64_t opened, deadline; /* of bring-up */
    uint64_t moved;            /* when any report last grew */
    uint64_t pinged;
    uint64_t asked;  /* the `moved` of the stall in which the absent were asked */
    uint64_t forget; /* of FAILED, when nobody is here: until then one that is away may ask for the cause; 0: not set */
} hp_roster;

/* Seats `count` ranks (seat i is rank i) of the meeting, and has their rosters sent. NULL: out of memory. */
hp_roster *hp_roster_new(const hp_join_group *join_group, const char *label, const hp_joined *joined, int count,
                         uint64_t comm, uint64_t now);
void hp_roster_free(hp_roster *roster); /* tells nobody; NULL is fine */

int hp_roster_where(const hp_roster *roster, int rank); /* HP_AT_*, for hp_message_fits */

/* A frame that fits (hp_message_fits). Returns 0, or -1 with the error filled: a breach of protocol. */
int hp_roster_message(hp_roster *roster, int rank, int type, const uint8_t *payload, size_t n, uint64_t now,
                      hoop_error *error);
/* The connection is closed. `why`: a sentence's end, "it broke the protocol"; NULL: it vanished. */
void hp_roster_lost(hp_roster *roster, int rank, const char *why);
/*
 * The control connection broke, which is no end: the rank may dial again, and comes back. Where it was in an operation it
 * has half a second for that.
 */
void hp_roster_broke(hp_roster *roster, int rank, uint64_t now);
/* Who has started this rank says that its process has ended: one that is away does not come back. */
void hp_roster_ended(hp_roster *roster, int rank);
/* Whether a member's JOIN is one of this ring's ranks, here or away, that may come back; and its seat, which it takes. */
int hp_roster_knows(const hp_roster *roster, const hp_join *join);
void hp_roster_return(hp_roster *roster, void *peer, const hp_join *join, uint64_t now);
int hp_roster_needed(const hp_roster *roster, uint64_t now); /* somebody is here, or may come back */
void hp_roster_tick(hp_roster *roster, uint64_t now);
int hp_roster_timed(const hp_roster *roster); /* whether it needs ticks */

/* Who holds up the ring, in which nothing has moved for `stalled` ns: a sentence; returns out. */
const char *hp_roster_late(const hp_roster *roster, uint64_t stalled, char *out, size_t size);

/* Ends it by what its owner has found, unless it has failed before. */
void hp_roster_fail(hp_roster *roster, const hoop_error *cause);

/* The rank's member while it is connected and the ring is sound, else NULL. */
const hp_member *hp_roster_holder(const hp_roster *roster, int rank);

#endif
