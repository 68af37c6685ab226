/* SPDX-License-Identifier: MIT */
/*
 * chaos: what the files of t/sys/chaos.t share. A seed is a script (chaos_script.c): who is in the ring at the end of each
 * phase, and which faults come until then. Guests are processes, numbered from the start to the end of a run; each takes a
 * slot, which is free again when it has died. Ranks are as hoop numbers them. The board is memory of all processes.
 */
#ifndef T_SYS_CHAOS_H
#define T_SYS_CHAOS_H

#include "hoop.h"
#include "t/tools/party.h"
#include "t/tools/proxy.h"

#include <stdatomic.h>
#include <stdint.h>

enum {
    CHAOS_SLOTS = 8,   /* and so many ranks at most */
    CHAOS_GUESTS = 24, /* in one run */
    CHAOS_PHASES = 5,
    CHAOS_FAULTS = 12, /* in one phase */
    CHAOS_EPOCHS = 64,
    CHAOS_EVENTS = 24, /* of each guest: so many are kept for the report */
    CHAOS_LINE = 160
};

/* --- the script --- */

typedef enum chaos_kind {
    CHAOS_KILL,
    CHAOS_STOP,   /* and made to go on after length_ms */
    CHAOS_FREEZE, /* stopped until the others have gone on without it */
    CHAOS_CUT,    /* a connection of the guest, by the proxy */
    CHAOS_HUSH,   /* the server is stopped for length_ms */
    CHAOS_DEATH   /* the server is killed, and started again after length_ms */
} chaos_kind;

typedef enum chaos_moment { CHAOS_OPERATION, CHAOS_SHRINK, CHAOS_GROW, CHAOS_CREATE, CHAOS_MOMENTS } chaos_moment;

typedef struct chaos_fault {
    chaos_kind kind;
    chaos_moment moment;
    int guest;
    int operation;      /* with CHAOS_OPERATION: which one of the guest's in the phase, from 0 */
    unsigned delay_us;  /* after the call begins */
    unsigned length_ms; /* of a stop */
} chaos_fault;

typedef struct chaos_phase {
    chaos_fault fault[CHAOS_FAULTS];
    int faults;
    uint32_t come; /* guests that wait for a place from this phase on, as bits */
    uint32_t here; /* guests that are in the ring at its end */
    int quiet;     /* operations after that */
} chaos_phase;

typedef enum chaos_scene {
    CHAOS_KILLS_MEMORY,
    CHAOS_KILLS_TCP,
    CHAOS_STOPS,
    CHAOS_CUTS,
    CHAOS_REJOINS,
    CHAOS_ALL,
    CHAOS_UNSERVED, /* in the end the server is killed, and then a rank */
    CHAOS_FROZEN,
    CHAOS_RETURNS, /* as CHAOS_REJOINS, and the server dies and comes back */
    CHAOS_SCENES
} chaos_scene;

typedef struct chaos_script {
    uint64_t seed;
    chaos_scene scene;
    int proxied, shared;
    int host; /* ranks of a host, over which long operations have two levels; 0: all are on one */
    const char *stripes, *channels, *checksum;
    int guests, phases;
    int slot[CHAOS_GUESTS];
    chaos_phase phase[CHAOS_PHASES + 1]; /* in the last one nothing happens */
} chaos_script;

/* The scene is the seed modulo CHAOS_SCENES. */
void chaos_write(chaos_script *script, uint64_t seed);
const char *chaos_scene_name(chaos_scene scene);
/* As comments of the test. */
void chaos_print(const chaos_script *script);
/* Guests that are lost in the phases up to this one; and those that are lost at such a moment alone. */
uint32_t chaos_lost(const chaos_script *script, int phase);
uint32_t chaos_lost_at(const chaos_script *script, int phase, chaos_moment moment);
/* How long processes are stopped in a phase, in seconds. */
double chaos_stopped(const chaos_script *script, int phase);

/* --- the board --- */

typedef struct chaos_place {
    atomic_int pid, phase, epoch;
    atomic_llong since;       /* when its last event was, in nanoseconds */
    atomic_llong lost_at;     /* when it dies, or is stopped for good; 0: never yet */
    atomic_int stop_ms;       /* of the stop that is armed; -1: for good */
    atomic_int settled;       /* in so many phases */
    atomic_int events;        /* of which the last ones are kept */
    atomic_llong worst;       /* nanoseconds from the last loss to the end of a shrink, at most */
    atomic_llong moment;      /* of chaos_gather */
    atomic_int pieces;        /* of memory, when all rings are destroyed */
    atomic_int done, shrinks; /* operations that have ended well; and shrinks */
    char event[CHAOS_EVENTS][CHAOS_LINE];
} chaos_place;

typedef struct chaos_board {
    long long begun;
    atomic_int wrong, told; /* the guest + 1 that has found what is wrong; and it has written what */
    char what[2 * CHAOS_LINE + PARTY_NOTE];
    atomic_int phase;               /* the furthest of all guests */
    atomic_int apart[CHAOS_EPOCHS]; /* a split or a grow of that epoch has failed; its ring may not have yet */
    atomic_int server;              /* its process id */
    atomic_int hush_ms;             /* how long the server is stopped, or away */
    atomic_int seat[CHAOS_EPOCHS][CHAOS_SLOTS]; /* guest + 1 of a rank, once that has the communicator */
    chaos_place place[CHAOS_GUESTS];
} chaos_board;

extern chaos_board *chaos_shared;
extern int chaos_guest; /* this process's number */

long long chaos_now(void); /* nanoseconds */
/* An event of this guest. */
void chaos_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The run has failed. The guest stays as it is until the test ends it. */
void chaos_wrong(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* --- a rank --- */

typedef struct chaos_run {
    const chaos_script *script;
    proxy *proxy; /* NULL: none */
} chaos_run;

party_fn chaos_live; /* its argument is a chaos_run */

/* --- operations --- */

typedef struct chaos_ring {
    hoop_comm *comm;
    int rank, size;
    int guest[CHAOS_SLOTS], slot[CHAOS_SLOTS]; /* of each rank */
    int proxied;                               /* connections may be cut */
    long long moment;                          /* grows from operation to operation, equally on all ranks */
} chaos_ring;

/*
 * Where connections may be cut, before a rank leaves a ring, or waits in another one: until all ranks of the ring have come
 * so far, so that they have all that was sent in it (LIMITATIONS of hoop_faults(7)). Meanwhile the rank drives the ring.
 */
void chaos_gather(const chaos_ring *ring, int step);

/* A split or a grow of this guest has failed. Who then shrinks the ring may be ahead of its failure. */
void chaos_part(void);

/* A call on the ring's communicator has failed: the error must name a guest that is lost. */
void chaos_blame(const chaos_ring *ring, hoop_result result);

/*
 * One operation, all of whose properties are in `draw`. If it ends well, each element is compared with what the slots of
 * the ring must give; so are the elements that must not have changed, also after an error.
 */
hoop_result chaos_operate(const chaos_ring *ring, uint64_t draw, int served);

#endif
