/* SPDX-License-Identifier: MIT */
/*
 * job: everything that goes on in one job: its meetings, its rings, and where each control connection stands; pure: no
 * I/O, no clock of its own. Jobs never meet, because each has a hall of its own. server.c puts sockets around it, the
 * tests and the fuzzer put nothing.
 */
#ifndef HP_JOB_H
#define HP_JOB_H

#include "net/handshake.h"
#include "rendezvous/job_watch.h"
#include "rendezvous/roster.h"

typedef struct hp_job {
    struct hp_job *next; /* the owner's */
    uint8_t job_id[HP_JOB_ID];
    char label[32]; /* "job 4f21c0de" */
    const hp_events *owner;
    hp_events events; /* what meetings and rosters are given: notes the guest's new place, then asks the owner */
    hp_join_group *join_groups;
    hp_roster *rosters;
    uint64_t next_comm;
    int guests;
    hp_overseer overseer;
    hp_ended ended; /* the first of the job's processes that has, where somebody tells us */
    int world;      /* the largest size that somebody who has proven itself has declared */
} hp_job;

/* One control connection; the owner embeds it, and gets its address back as the outlet's `peer`. */
typedef struct hp_guest {
    hp_job *job;
    int where; /* HP_BEFORE_JOIN, HP_JOINING; else it is seated and the roster knows */
    int done;  /* refused or dismissed: nothing more is heard */
    uint32_t rank_said, world_said;
    uint64_t parent_said; /* what its HELLO declared; JOIN must say the same */
    hp_join_group *join_group;
    hp_roster *roster;
    int rank;
    int returned; /* it has taken its seat again: it knows the roster */
} hp_guest;

/* comm_seed: random, so that communicators of a restarted server or of another job differ. NULL: out of memory. */
hp_job *hp_job_new(const hp_events *owner, const uint8_t job_id[HP_JOB_ID], uint64_t comm_seed);
void hp_job_free(hp_job *job);       /* tells nobody */
int hp_job_idle(const hp_job *job);  /* nobody is here or has ended, nothing is kept: it may be freed */
int hp_job_timed(const hp_job *job); /* whether it needs ticks */

/*
 * The process of rank `rank` of the `size` in this job has ended well and joins nothing any more: worlds that wait for
 * it fail now, and those that are opened later as soon as somebody comes. The hall is kept for that.
 */
void hp_job_ended(hp_job *job, int rank, int size, const char *host, uint64_t now);

/* Whether a proven connection may enter; hall NULL: the job's first. HP_FULL: more of them than its ranks can need. */
hp_status hp_job_judge(const hp_job *job, const hp_hello *hello);
/* How many of its ranks may knock at once from one address: as many as it says it has, where enough have proven it. */
int hp_job_expects(const hp_job *job);
void hp_job_enter(hp_job *job, hp_guest *guest, const hp_hello *hello);

/* One control frame. 0, or -1 with the error filled: a breach of protocol; the owner closes and calls hp_job_lost. */
int hp_job_message(hp_guest *guest, int type, const uint8_t *payload, size_t n, uint64_t now, hoop_error *error);
/* The connection is closed. `why` as for hp_roster_lost; it is said only of members. */
void hp_job_lost(hp_guest *guest, const char *why, uint64_t now);
/* The connection broke in a way that is no end: whoever was at the other side may still be there, and dial again. */
void hp_job_broke(hp_guest *guest, uint64_t now);
void hp_job_tick(hp_job *job, uint64_t now);

#endif
