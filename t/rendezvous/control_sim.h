/* SPDX-License-Identifier: MIT */
/*
 * control_sim: a job at its server and the memberships of its ranks, over control connections that are simulated: they
 * delay frames, are reset with the loss of what is on its way, or closed by a proxy, and either end may be frozen. Time
 * moves when the test says so, and each process has a clock of its own that stands while it is frozen.
 */
#ifndef T_CONTROL_SIM_H
#define T_CONTROL_SIM_H

#include "rendezvous/job.h"
#include "rendezvous/membership.h"

enum { CONTROL_LINES = 64 };

typedef struct frame {
    struct frame *next;
    uint64_t at;            /* when it arrives */
    hp_control_frame frame; /* of type -1: the end of file */
    uint8_t bytes[];
} frame;

/* One direction of a connection. */
typedef struct way {
    frame *first, *last;
} way;

/* One control connection. */
typedef struct wire {
    hp_job_conn conn; /* first */
    struct wire *next;
    int rank_up, server_up;          /* each end has it open */
    uint64_t rank_sees, server_sees; /* when that end sees a reset, or what a proxy does; HP_NEVER: there was none */
    int closed;                      /* a proxy has closed it in order, instead of that */
    way up, down;                    /* to the server, from it */
} wire;

/* One membership with its connection. */
typedef struct seat {
    struct control_sim *sim;
    hp_membership m;
    int open;
    uint64_t unseen; /* until then the server has not seen the last reset */
    int full;        /* a frame was dropped */
    wire *wire;
    int dialling;                          /* 1: on its way to the server; 2: the answer is on its way back */
    uint64_t dial_at, dial_until, refused; /* refused: when it gives up a server that is dead */
    hp_hello hello;
    hp_status status;
} seat;

typedef struct control_sim {
    hp_events events;
    hp_job *job;
    uint64_t random;
    uint64_t time;          /* of the world */
    uint64_t server_clock;  /* stands while it is frozen */
    uint64_t server_frozen; /* until then */
    uint64_t server_dead;   /* until then: it has died, and has lost all that it knew */
    int deaths;             /* so many times */
    uint64_t ticked;
    wire *wires;
    int slow;                      /* the longest delay, ms */
    size_t queue;                  /* bytes that a rank keeps for a server that does not read */
    int failures, over;            /* rings that have failed; that all ranks have left */
    int last_failed;               /* the pid of the rank that the last failure names; -1: none */
    int log;                       /* lines are shown */
    char line[CONTROL_LINES][400]; /* the last ones of the server */
    unsigned lines;
    unsigned long long steps;
    int broken; /* an end has broken the protocol */
} control_sim;

void control_open(control_sim *s, uint64_t seed);
void control_close(control_sim *s);
uint64_t control_random(control_sim *s, uint64_t below);

/* The server dies, and is started again after so long. What it has sent arrives; each rank sees an end or a reset. */
void control_kill(control_sim *s, uint64_t after);
/* The server's turn, unless it is frozen, or dead. */
void control_serve(control_sim *s, uint64_t tick);

void seat_open(control_sim *s, seat *e, const hp_client_options *options, uint64_t clock);
/* The server's acceptor answers a dial that has arrived, unless it is frozen. */
void seat_accept(seat *e);
/* What has happened on the connection by now; `clock`: of the process. */
void seat_turn(seat *e, uint64_t clock);
/* The process closes the connection: with what is on its way, or by a reset. */
void seat_close(seat *e, int reset);
/* The connection is reset: each end sees it after a while of its own, the server perhaps never. */
void seat_reset(seat *e);
/* A proxy closes it in order: what is on its way arrives, what is sent later does not. */
void seat_shut(seat *e);
/* After a call of the owner: does what the membership wants. */
void seat_obey(seat *e, uint64_t clock);

#endif
