/* SPDX-License-Identifier: MIT */
/*
 * actor: the ranks of a storm (storm.c), and what each knows and does: it joins, calls operations, splits and leaves, as lib
 * does it, over a simulated control connection. Links between ranks carry no bytes: each sees what the others have entered.
 */
#ifndef T_ACTOR_H
#define T_ACTOR_H

#include "t/rendezvous/control_sim.h"

enum {
    RANKS = 5,
    RINGS = 12,
    SCENES = 14,
    STEP_MS = 5,
    FROST_MS = 62000,  /* all freezes together */
    LIMIT_MS = 130000, /* of an operation: above these, and a late rank */
    LATE_MS = 40000,
    SHORT_LIMIT_MS = 30000, /* where only the server is frozen, and ranks come less late */
    LESS_LATE_MS = 25000,
    BRINGUP_MS = 200000, /* above all freezes together */
    CALM_MS = 3000,      /* within this time, without any trouble, a death is told to all who wait */
    PEER_MS = 30000,     /* for how long destroy waits for a server that acknowledges nothing, */
    LEAVE_MS = 40000,    /* and for how long at most */
    LAST_MS = 2000000    /* the longest job */
};

/* What each rank does, one after the other; all do the same. */
typedef enum scene_kind { SCENE_OPS, SCENE_SPLIT, SCENE_CHILD_OPS, SCENE_CLOSE } scene_kind;

typedef struct scene {
    scene_kind kind;
    int ops, pause_ms; /* so many operations, with up to so long between them */
    int late, late_ms; /* this rank comes so late to the scene */
    int outsider;      /* of a split: this rank's colour is -1; -1: none's */
} scene;

/* The links of one ring, as its ranks see them. */
typedef struct links {
    uint64_t comm;
    int ready[RANKS];    /* by world rank: it has the roster */
    unsigned met[RANKS]; /* by world rank: to whom its links are up */
    int size;
    uint64_t entered[RANKS]; /* the operation in which the rank is, or which it has completed */
    int of_ring[RANKS];      /* its rank in this ring; -1: it is no member */
    int broken;              /* one of them is, for a moment: the operation does not get on */
    int aborted;
    hoop_error abort;
} links;

typedef enum place { AT_JOIN, AT_LINKS, AT_GO, AT_WORK, AT_OP, AT_LEAVE, AT_END } place;

typedef struct actor {
    int rank, dead;
    int unheard;                         /* it has left, and the server may not know */
    uint64_t clock, frozen, since, left; /* since: it waits where it is, by its clock */
    uint64_t until;                      /* it computes until then, by its clock */
    seat world, child;
    place at;
    int scene, op, splits;
    uint64_t sequence[2], completed[2]; /* of world and child */
    uint64_t reported;
    int in_op_told;
    uint64_t suspects, found_at; /* since when it has lost a neighbour; when a link that broke is back */
} actor;

typedef struct storm {
    control_sim s;
    int n, resets, freezes, hiccups; /* ranks; which trouble there is */
    int proxied;                     /* each rank is behind a proxy, which may close its connections */
    uint64_t rests;                  /* ranks that do not drive the world while they wait in a split: one bit each */
    int mortal, victim, violent;     /* a rank will die; violent: its connections are reset */
    int hidden;                      /* the server cannot see its death for now */
    int forgotten;                   /* a server without memory could not help but end the job */
    int unwatched; /* a rank ended because of the death while the server did not look: it cannot tell which was first */
    uint64_t dies_at, died, calm; /* calm: for how long there is no trouble, after the death */
    uint64_t last_trouble, probed, hiccup_until;
    int server_only, limit_ms, late_ms; /* only the server is frozen; the limit of operations; how late ranks may be */
    uint64_t frost_ms;                  /* for how long something may be frozen yet */
    scene scenes[SCENES];
    int scenes_n;
    links rings[RINGS];
    int rings_n;
    actor actors[RANKS];
    uint64_t kill_at; /* when the server dies next; HP_NEVER: it does not */
    int over;         /* something is wrong: */
    char why[400];    /* what */
} storm;

uint64_t storm_roll(storm *t, uint64_t below);
void storm_complain(storm *t, const actor *a, const char *what); /* only the first one is kept */

void actor_join(storm *t, actor *a); /* begins to join the world */
void actor_live(storm *t, actor *a); /* one step */
void actor_end(actor *a, int reset); /* the process has ended, and its connections with it */

/* On which communicator it works: its part, or the world. */
seat *actor_seat(actor *a);
links *actor_links(storm *t, const seat *e);

#endif
