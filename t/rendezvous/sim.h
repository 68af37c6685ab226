/* SPDX-License-Identifier: MIT */
/*
 * sim: one job without sockets and without a clock: conns that keep what they are told, time that moves when
 * the test says so. Shared by the tests of the pure rooms.
 */
#ifndef T_SIM_JOB_H
#define T_SIM_JOB_H

#include "rendezvous/admission.h"
#include "rendezvous/job.h"
#include "rendezvous/registration.h"

enum { SIM_MAX = 520, SIM_LINES = 400 };

typedef struct sim_conn {
    hp_job_conn conn; /* first */
    int present;      /* its connection is open */
    int cut_off;      /* its host takes nothing */
    int joined, disconnected, go, pings, causes, empty;
    int rank;         /* as the roster says */
    hp_ring ring;     /* as decoded from the parts */
    hoop_error cause; /* of ABORT or REFUSED, the first one */
    int cause_type;
} sim_conn;

typedef struct sim {
    hp_events events;
    hp_job *job;
    uint64_t now;
    sim_conn conns[SIM_MAX];
    char line[400]; /* the last one said */
    int lines;
    char warning[400]; /* likewise */
    int warnings;
    int per_host; /* the owner knows where ranks were started; 0: it does not */
    int held;     /* the rank whose process the owner knows to be stopped; -1: it knows of none */
    char failed_split[64];
    uint32_t failed_pid;
    hoop_error failure; /* of a ring or a join group, the last one */
    int failures;
    int ended; /* rings that are over */
} sim;

void sim_open(sim *s);
void sim_close(sim *s);

/* "10.0.0.1" style defaults: host = rank / per_host, patience 5 s, op time-out 2 s, settings "slice=1\n". */
hp_join sim_join_of(int rank, int size, int per_host);
/* Of the rank that conn `member` is, for a communicator that is made of its ring. */
hp_join sim_derived_of(const sim *s, int member);
/* Whether conn g has got a ring, once, of which it is rank `rank` of `size`, with this epoch. */
int sim_has_ring(const sim *s, int g, int rank, int size, uint32_t epoch);
int sim_enter(sim *s, int g, const hp_join *join); /* the hello; returns judge's status */
int sim_join(sim *s, int g, const hp_join *join);  /* hello and JOIN; -1: breach of protocol */
int sim_say(sim *s, int g, int type, const void *payload, size_t n);
int sim_report(sim *s, int g, uint64_t sequence, uint64_t step, int waits_for);
int sim_in_op(sim *s, int g, int type, const hp_report *report); /* IN_OP or PROGRESS */
int sim_count(sim *s, int g, int type, uint64_t count);          /* OUT or LEAVE */
int sim_abort(sim *s, int g, hoop_result code, int rank, const char *text);
int sim_lost(sim *s, int g, int peer, int number, uint64_t sequence);
int sim_repairs(sim *s, int g, int peer, int number, uint64_t sequence); /* the same, and makes the connection again */
void sim_lose(sim *s, int g);
void sim_break(sim *s, int g); /* its connection is reset: it is away */
/* Connection g comes as the member that conn `was` is or was, from there on in g's place. -1: breach of protocol. */
int sim_return(sim *s, int g, const sim_conn *was, uint64_t completed);
void sim_pass(sim *s, int ms); /* time, with a tick every 50 ms */

/* n ranks come in random order, all say READY; conn i is rank i. */
void sim_world(sim *s, int n, int per_host);
/* Opens one of n ranks with this time-out. They come in order, and all say READY; conn i is rank i. */
void sim_ring(sim *s, int n, int per_host, uint64_t op_timeout);
/* A split of its ranks from `from` on, in order, by conns `at` + rank, which say READY; the others take no part. */
void sim_split(sim *s, int at, int from, uint64_t op_timeout);
/* How many of the present conns [0, n), not counting `except`, have been told this cause exactly once. */
int sim_told(const sim *s, int n, int except, hoop_result code, int rank);

/* A sentence that names the rank for which the others wait; nothing has moved for `stalled` ns. Returns out. */
const char *sim_late(const sim *s, const hp_roster *ring, uint64_t stalled, char *out, size_t size);

#endif
