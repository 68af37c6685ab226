/* SPDX-License-Identifier: MIT */
/*
 * whereabouts: where the processes of a job wait: in operations of its rings, in splits, in messages; and what is known of
 * each in all its rings. Pure. A ring counts only where it has stood still for some reports: a rank that works in another
 * ring is late by itself. A rank in a split sends no reports, but its connection is there.
 *
 * The list is taken for one answer or one time-out: soon after that it is not true any more. It costs n log n for n ranks of
 * all rings together, and a question log n. Without memory for it nobody waits anywhere.
 */
#ifndef HP_WHEREABOUTS_H
#define HP_WHEREABOUTS_H

#include "flight/wait_graph.h"
#include "rendezvous/job_state.h"

/* Where ranks wait: in the oldest operation of a ring, in a split of it, or one rank in a message there. */
typedef struct hp_wait_place {
    const hp_roster *ring;      /* NULL: nowhere */
    const hp_join_group *split; /* NULL: not in a split */
    int rank;                   /* of the ring, that waits in a message; -1: not in a message */
} hp_wait_place;

static inline int
hp_wait_place_is_operation(const hp_wait_place *p)
{
    return !p->split && p->rank < 0;
}

/* The message in which its one rank waits. */
static inline const hp_waiting *
hp_wait_place_message(const hp_wait_place *p)
{
    return &p->ring->witnesses[p->rank].waiting;
}

/* One process in one place, or as a rank of a ring. Processes are the same if host, pid, its name space and port are. */
typedef struct hp_stay {
    const hp_member *who;
    hp_wait_place place; /* its ring NULL: this is the rank of a ring, with what is known of it there */
    hp_wait_edge wait;   /* there */
    uint64_t since;      /* when the place stood still, or the process came there */
    int just_came;       /* to a split, when the last reports came: the process was late itself */
    uint64_t heard;      /* of a rank, when the server heard of it last; 0: never */
    hp_process process;  /* of a rank */
    size_t number;       /* by which stays since the same moment are in order */
    int index;           /* of the process in `waits` */
} hp_stay;

typedef struct hp_whereabouts {
    const hp_job *job;
    const hp_roster *failed; /* a ring that has just failed, and still counts; NULL: none has */
    uint64_t heard;          /* the most recent report of any rank that waits */
    hp_stay *stays;          /* process by process; of each its places, the longest stay first, and then its ranks */
    size_t n;
    hp_wait_edge *waits; /* by process: the longest stay of each, without splits to which it has just come */
} hp_whereabouts;

hp_whereabouts hp_whereabouts_take(const hp_job *job, const hp_roster *failed, uint64_t now);
void hp_whereabouts_free(hp_whereabouts *w);

int hp_wait_place_same(const hp_wait_place *one, const hp_wait_place *other);

/* Whom the place awaits: a split the first rank that is missing, a message its peer. */
hp_blame hp_wait_place_blame(const hp_wait_place *place);

/* Those that follow each other from there: the graph's finding. hops 0: the rank that the place awaits waits in no other. */
hp_wait_finding hp_whereabouts_follow(const hp_whereabouts *w, const hp_wait_place *from, const hp_blame *blame);

/* The longest stay of a process other than in this place; NULL: none. */
const hp_stay *hp_whereabouts_find(const hp_whereabouts *w, const hp_member *who, const hp_wait_place *here);

/* When the server heard of the process last, in any ring, and whether it runs. Its place is none. */
hp_stay hp_whereabouts_known(const hp_whereabouts *w, const hp_member *who);

/* Whether it runs, in a stall of so many ns: that is known after a second only, since it is looked at now and then. */
hp_process hp_whereabouts_process(const hp_whereabouts *w, const hp_member *who, uint64_t stalled);

enum { HP_WHERE_TEXT = 160 };

/*
 * What a rank of this ring does that waits there: "waits in split 1 colour 0", "in hoop_comm_split 2", "recv of 5 x float32
 * (tag 3)"; of another communicator's split or message with "of "tp"". Returns out.
 */
const char *hp_stay_print(const hp_stay *stay, const hp_roster *ring, char out[HP_WHERE_TEXT]);

/* For whom or what it waits there: "data from rank 5", "rank 2 to split", "its stream"; "" if it has no number in this ring. */
const char *hp_stay_waits_for(const hp_stay *stay, const hp_roster *ring, char out[HP_WHERE_TEXT]);

#endif
