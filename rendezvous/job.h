/* SPDX-License-Identifier: MIT */
/*
 * job: all state of one job: its join groups, its rings, and what each control connection awaits. Pure: no I/O, no
 * clock of its own. Each job has one, so jobs cannot mix. server.c adds the sockets; tests and the fuzzer add none.
 */
#ifndef HP_JOB_H
#define HP_JOB_H

#include "net/handshake.h"
#include "rendezvous/job_watch.h"
#include "rendezvous/roster.h"

typedef struct hp_job {
    struct hp_job *next; /* for the owner's list */
    uint8_t job_id[HP_JOB_ID_BYTES];
    char label[32]; /* "job 4f21c0de" */
    const hp_events *owner;
    hp_events events; /* given to join groups and rosters: notes the connection's state, then calls the owner's */
    hp_join_group *join_groups;
    hp_roster *rosters;
    uint64_t next_comm;
    int conns;
    hp_job_watch watch;
    hp_ended ended; /* the first process of the job that has ended, if the owner knows it */
    int world;      /* the largest size that a proven rank has declared */
} hp_job;

/* One control connection. The owner embeds it, and gets its address back as the `peer` of events. */
typedef struct hp_job_conn {
    hp_job *job;
    int where; /* HP_BEFORE_JOIN or HP_JOINING; once it has a rank, the roster knows */
    int done;  /* refused or disconnected: its frames are ignored */
    uint32_t declared_rank, declared_world;
    uint64_t declared_parent; /* what its HELLO declared; JOIN must declare the same */
    hp_join_group *join_group;
    hp_roster *roster;
    int rank;
    int returned; /* it was reconnected: it has the roster already */
} hp_job_conn;

/*
 * comm_seed: random, so that communicators of different jobs, or after a restart of the server, differ. NULL: out of
 * memory.
 */
hp_job *hp_job_new(const hp_events *owner, const uint8_t job_id[HP_JOB_ID_BYTES], uint64_t comm_seed);
void hp_job_free(hp_job *job);       /* sends nothing */
int hp_job_idle(const hp_job *job);  /* 1: no connection, no ring, nothing to remember: it may be freed */
int hp_job_timed(const hp_job *job); /* whether it needs hp_job_tick */

/*
 * The process of rank `rank` of the job's `size` ranks has ended with status 0 and will not join any more. Worlds
 * that wait for it fail now, and those that are opened later fail at once; the job is remembered for that.
 */
void hp_job_ended(hp_job *job, int rank, int size, const char *host, uint64_t now);

/* Whether a proven connection may enter; job NULL: it is the job's first. HP_FULL: its ranks cannot need so many. */
hp_status hp_job_judge(const hp_job *job, const hp_hello *hello);
/* How many of its ranks may connect at once from one address: as many as it declares, if enough of them are proven. */
int hp_job_expects(const hp_job *job);
void hp_job_enter(hp_job *job, hp_job_conn *conn, const hp_hello *hello);

/*
 * One control frame. Returns 0, or -1 with the error filled: the peer broke the protocol; the owner closes the
 * connection and calls hp_job_lost.
 */
int hp_job_message(hp_job_conn *conn, int type, const uint8_t *payload, size_t n, uint64_t now, hoop_error *error);
/* The connection is closed. `why` is as for hp_roster_lost, and used for members only. */
void hp_job_lost(hp_job_conn *conn, const char *why, uint64_t now);
/* The connection broke in a way that need not be its process's end: the rank may be alive and dial again. */
void hp_job_broke(hp_job_conn *conn, uint64_t now);
void hp_job_tick(hp_job *job, uint64_t now);

#endif
