/* SPDX-License-Identifier: MIT */
/*
 * join_group: the ranks of one future ring, before all have joined. Pure: no I/O, no clock of its own. A world
 * (parent 0) waits for `size` ranks, a split for all ranks of its parent, a shrink for those of them that are left. It checks that they agree, lists the
 * missing ranks at the time-out, and is cut into groups when complete: one for a world, one for each colour of a
 * split. Each has an order of its ranks in the ring.
 */
#ifndef HP_JOIN_GROUP_H
#define HP_JOIN_GROUP_H

#include "rendezvous/events.h"
#include "rendezvous/message.h"
#include "rendezvous/stall_warning.h"

/* A rank that has joined. */
typedef struct hp_joined {
    void *peer;       /* NULL: its connection was reset, and it may dial again */
    uint64_t away;    /* when that was; 0: it is connected */
    uint64_t alive;   /* when its process was proven to be alive since then; 0: it was not */
    uint64_t silence; /* as a witness has it (blame.h) */
    uint32_t number;  /* by which it names its JOIN; 0: it names none */
    hp_member member; /* its rank: declared, or -1 until hp_join_group_group; in a split the rank in the parent */
    int color, key;
    uint64_t started, completed; /* operations in the parent */
    uint64_t at;                 /* when it joined */
} hp_joined;

/* A rank whose process has ended, as reported by the owner that started it; size 0: none. */
typedef struct hp_ended {
    int rank, size; /* size: of the whole job */
    char host[HP_HOST_TEXT];
} hp_ended;

typedef struct hp_join_group {
    struct hp_join_group *next; /* for the owner's list */
    const hp_events *events;
    char label[64]; /* "job 4f21c0de", for messages */
    uint64_t parent;
    uint32_t split;
    int shrink;           /* 1: the parent has failed, and its ranks that are left form a ring */
    int grow;             /* 1: all ranks of the parent form a ring, with others (grow.h) */
    uint32_t epoch;       /* of the ring that it becomes */
    uint64_t least, most; /* set by hp_join_group_sort */
    int size, joined_n, capacity;
    hp_joined *joined;    /* in order of arrival; sorted by hp_join_group_sort */
    char *agree;          /* settings of the first rank that joined */
    hoop_error failure;   /* code HOOP_SUCCESS: it is open; else it has failed, and is remembered until the deadline */
    uint64_t *has_joined; /* a bit for each rank that has joined, or of a shrink is gone; kept after a failure */
    uint64_t op_timeout, warn_after, peer_timeout; /* of the first rank that joined */
    uint64_t opened, deadline;
    uint64_t deaf;    /* of a shrink: when the server last heard nobody (shrink.c) */
    uint64_t crossed; /* since when a rank outside is in an operation that a rank inside has not started; 0: none is */
    char mistrusted[96]; /* "; a process at ADDRESS has another secret", for sentences about missing ranks; or "" */
    hp_stall_warning warning; /* the stall warning of a world that is not complete */
} hp_join_group;

/* The call by which the ranks of a parent join it. */
static inline const char *
hp_join_group_call(const hp_join_group *join_group)
{
    return join_group->shrink ? "hoop_comm_shrink" : join_group->grow ? "hoop_comm_grow" : "hoop_comm_split";
}

/* Opened by its first JOIN, which must then be added. NULL: out of memory. */
hp_join_group *hp_join_group_new(const hp_events *events, const char *label, const hp_join *first, uint64_t now);
void hp_join_group_free(hp_join_group *join_group); /* sends nothing; NULL is fine */

int hp_join_group_is(const hp_join_group *join_group, const hp_join *join); /* whether this JOIN belongs to it */
int hp_join_group_has(const hp_join_group *join_group, int rank); /* whether a peer with this rank number has joined */

/*
 * Adds the peer, or refuses it with the error filled. A difference of size or settings fails the group: the ranks
 * that have joined get the error here, and the new one gets it from its owner.
 */
hoop_result hp_join_group_join(hp_join_group *join_group, void *peer, const hp_join *join, uint64_t now,
                               hoop_error *error);
void hp_join_group_lost(hp_join_group *join_group, const void *peer,
                        uint64_t now); /* a world goes on waiting, a split is over */
hp_joined *hp_join_group_entry(const hp_join_group *join_group, const void *peer); /* NULL: it is not in the group */
/* The JOIN of joined[joined], as far as it is kept. */
hp_join hp_join_group_joined(const hp_join_group *join_group, int joined);
/* It has its place elsewhere, and is not in the group any more. */
void hp_join_group_withdraw(hp_join_group *join_group, int joined);
/*
 * The connection broke, but the rank may be alive and dial again: then it takes its own place. A split waits for that as
 * long as a member dials, or as its process is proven to be alive; a world would have been joined anew in any case.
 */
void hp_join_group_broke(hp_join_group *join_group, const void *peer, uint64_t now);
/* A process has ended for certain, or is alive. 1: it is one of those that wait here, and is away. */
int hp_join_group_probed(hp_join_group *join_group, const hp_member *who, int ended, uint64_t now);
/*
 * Fails a world that waits for a rank that has ended. A world of another size, or one whose ranks the server assigns,
 * may be complete without it, and goes on waiting.
 */
void hp_join_group_fail_missing(hp_join_group *join_group, const hp_ended *ended, uint64_t now);
/*
 * The ranks of another group, which has no parent, become the last ones of this group. Returns how many; -1: not one, with
 * the error filled, because their settings are not this group's, or memory is short.
 */
int hp_join_group_take(hp_join_group *join_group, hp_join_group *from, hoop_error *error);
/* A shrink does not wait for this rank any longer; it may join all the same, as long as others are awaited. */
void hp_join_group_excuse(hp_join_group *join_group, int rank);
/* The rank will not join: that fails a split that is still open. */
void hp_join_group_refuse(hp_join_group *join_group, int rank, const hoop_error *cause, uint64_t now);
void hp_join_group_mistrust(hp_join_group *join_group, const char *address); /* see hp_job_mistrust */
int hp_join_group_is_known(const hp_join_group *join_group); /* every rank has joined it, before or after its failure */
/*
 * Fails it: every rank that has joined gets the error and is disconnected. It is remembered for a moment, so that
 * ranks that join later get the cause.
 */
void hp_join_group_fail(hp_join_group *join_group, const hoop_error *error, uint64_t now);
/* 1: the time of those that wait is up, and the owner fails it, since it knows where the missing ranks wait instead. */
int hp_join_group_tick(hp_join_group *join_group, uint64_t now);
void hp_join_group_missing(const hp_join_group *join_group,
                           hoop_error *error); /* the error of that: who has not joined */

/*
 * When all have joined: assigns ranks to those without one and sorts by (colour, key, rank). Groups are then runs of
 * `joined`: hp_join_group_group returns the length of the one that begins at `first` (0: none) and numbers its ranks
 * from 0.
 */
void hp_join_group_sort(hp_join_group *join_group);
int hp_join_group_group(hp_join_group *join_group, int first);

/* Ranks of one host are adjacent, hosts are sorted by their lowest rank, ranks by number. 0: out of memory. */
int hp_ring_arrange(hp_ring *ring);
int hp_ring_hosts(const hp_ring *ring); /* the number of hosts of an ordered ring */

#endif
