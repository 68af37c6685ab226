/* SPDX-License-Identifier: MIT */
/*
 * join_group: the ranks of one ring to be, before all have come; pure: no I/O, no clock of its own. A world (parent 0)
 * waits for `size` ranks, a split for all ranks of its parent. It checks that they agree, names those who are missing
 * at the time-out, and, when full, is cut into groups: one for a world, one per colour for a split.
 */
#ifndef HP_JOIN_GROUP_H
#define HP_JOIN_GROUP_H

#include "rendezvous/events.h"
#include "rendezvous/message.h"
#include "rendezvous/stall_warning.h"

/* One who came. */
typedef struct hp_joined {
    void *peer;
    hp_member who; /* rank: given, or -1 until hp_join_group_group; in a split the rank in the parent */
    int color, key;
    uint64_t started; /* operations of the parent */
} hp_joined;

/* A rank whose process has ended, as who started it says; size 0: none has. */
typedef struct hp_ended {
    int rank, size; /* of the whole job */
    char host[HP_HOST_TEXT];
} hp_ended;

typedef struct hp_join_group {
    struct hp_join_group *next; /* the owner's */
    const hp_events *events;
    char label[64]; /* "job 4f21c0de", for lines and sentences */
    uint64_t parent;
    uint32_t split;
    int size, came, capacity;
    hp_joined *joined;               /* in order of arrival; sorted by hp_join_group_sort */
    char *agree;                     /* the first comer's settings */
    hoop_error failure;              /* code HOOP_SUCCESS: still open; else kept until deadline */
    uint64_t *told;                  /* ranks that have come to this meeting, as bits; survives the failure */
    uint64_t op_timeout, warn_after; /* the first comer's */
    uint64_t opened, deadline;
    uint64_t crossed; /* since when a rank has been in an operation that one who is here has not started; 0: none is */
    hp_stall_warning warning; /* the overseer's: a world that is not complete */
} hp_join_group;

/* Opened by its first JOIN, which must then be seated. NULL: out of memory. */
hp_join_group *hp_join_group_new(const hp_events *events, const char *label, const hp_join *first, uint64_t now);
void hp_join_group_free(hp_join_group *join_group); /* tells nobody; NULL is fine */

int hp_join_group_is(const hp_join_group *join_group, const hp_join *join); /* whether this JOIN belongs here */
int hp_join_group_has(const hp_join_group *join_group, int rank); /* whether this rank was given and has come */

/*
 * Seats the peer, or refuses it with the error filled. A difference of size or settings ends the meeting for everyone:
 * all seated are told here, the newcomer by its owner.
 */
hoop_result hp_join_group_join(hp_join_group *join_group, void *peer, const hp_join *join, uint64_t now,
                               hoop_error *error);
void hp_join_group_lost(hp_join_group *join_group, void *peer, uint64_t now); /* a world waits on, a split is over */
/*
 * Fails a world that waits for a rank that has ended. One of another size, or in which the server gives the ranks, may
 * do without it, and waits on.
 */
void hp_join_group_fail_missing(hp_join_group *join_group, const hp_ended *ended, uint64_t now);
/* A rank says that it will not come: a split is over with that, unless it is already. */
void hp_join_group_refuse(hp_join_group *join_group, int rank, const hoop_error *cause, uint64_t now);
int
hp_join_group_is_known(const hp_join_group *join_group); /* every rank has come to it, before its failure or after */
/* Ends it: everyone seated is told and dismissed. Kept for a moment, so that late-comers learn the cause. */
void hp_join_group_fail(hp_join_group *join_group, const hoop_error *error, uint64_t now);
void hp_join_group_tick(hp_join_group *join_group, uint64_t now);

/*
 * When came == size: gives ranks to those without one and sorts by (colour, key, rank). Groups are then runs of seats:
 * hp_join_group_group returns the length of the one that begins at `first` (0: none) and numbers its ranks from 0.
 */
void hp_join_group_sort(hp_join_group *join_group);
int hp_join_group_group(hp_join_group *join_group, int first);

/* "3, 5-7" of the ranks whose bit in `set` equals `value`, cut with "and 12 more" where `out` is full; returns out. */
const char *hp_rank_list(const uint64_t *set, int n, int value, char *out, size_t size);

#endif
