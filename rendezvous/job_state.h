/* SPDX-License-Identifier: MIT */
/* job_state: the structure of a job and of its connections; job.h has what is done with them. */
#ifndef HP_JOB_STATE_H
#define HP_JOB_STATE_H

#include "net/handshake.h"
#include "rendezvous/job_watch.h"
#include "rendezvous/roster.h"

typedef struct hp_job {
    struct hp_job *next; /* for the owner's list */
    uint8_t job_id[HP_JOB_ID_BYTES];
    hp_keys *keys;  /* set by the owner once a rank is proven, and dropped with the job; NULL: not yet */
    char label[32]; /* "job 4f21c0de" */
    const hp_events *owner;
    hp_events events; /* given to join groups and rosters: notes the connection's state, then calls the owner's */
    hp_join_group *join_groups;
    hp_roster *rosters;
    uint64_t next_comm;
    int conns;
    uint64_t full_since; /* since when ranks are refused because there are so many; 0: there is room */
    hp_job_watch watch;
    hp_ended ended; /* the first process of the job that has ended, if the owner knows it */
    int world;      /* the largest size that a proven rank has declared */
} hp_job;

/* One control connection. The owner embeds it, and gets its address back as the `peer` of events. */
typedef struct hp_job_conn {
    hp_job *job;
    int where;   /* HP_BEFORE_JOIN or HP_JOINING; once it has a rank, the roster knows */
    int done;    /* refused or disconnected: its frames are ignored */
    int starved; /* set by the owner: no descriptor is left for another one, and this one is let in to hear that */
    uint32_t declared_rank, declared_world;
    uint64_t declared_parent; /* what its HELLO declared; JOIN must declare the same */
    hp_join_group *join_group;
    hp_roster *roster;
    int rank;
    int returned; /* it was reconnected: it has the roster already */
} hp_job_conn;

#endif
