/* SPDX-License-Identifier: MIT */
/* job_state: the structure of a job; job.h has what is done with it. */
#ifndef HP_JOB_STATE_H
#define HP_JOB_STATE_H

#include "net/handshake.h"
#include "rendezvous/roster.h"

/* Which stall is warned of: of one ring at a time, however many are stalled. All zero at the start. */
typedef struct hp_job_watch {
    hp_stall_warning warning;
    uint64_t ring; /* its communicator */
} hp_job_watch;

typedef struct hp_job {
    struct hp_job *next; /* for the owner's list */
    uint8_t job_id[HP_JOB_ID_BYTES];
    hp_keys *keys;  /* set by the owner once a rank is proven, and dropped with the job; NULL: not yet */
    char label[32]; /* "job 4f21c0de" */
    const hp_events *owner;
    hp_join_group *join_groups;
    hp_join_group *newcomers; /* groups that wait for a ring to grow (grow.h) */
    hp_roster *rosters;
    struct hp_recall *recalls; /* rings that ranks name, and that are not known */
    uint64_t next_comm;
    int conns;
    uint64_t here;       /* when there last were any */
    uint64_t full_since; /* since when ranks are refused because there are so many; 0: there is room */
    hp_job_watch watch;
    hp_ended ended;  /* the first process of the job that has ended, if the owner knows it */
    hp_addr network; /* on which ranks with link-local addresses are: such an address, with its interface */
    int world;       /* the largest size that a proven rank has declared */
} hp_job;

/* The ring of this communicator; NULL: there is none, or comm is 0. */
static inline hp_roster *
hp_job_ring(hp_roster *rosters, uint64_t comm)
{
    hp_roster *r = rosters;
    while (r && r->ring.comm != comm)
        r = r->next;
    return comm ? r : NULL;
}

#endif
