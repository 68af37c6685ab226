/* SPDX-License-Identifier: MIT */
/*
 * join_group: the ranks of one ring to be, before all have come; pure: no I/O, no clock of its own. A world (parent 0)
 * waits for `size` ranks, a split for all ranks of its parent. It checks that they agree, names those who are missing
 * at the time-out, and, when full, is cut into groups: one for a world, one per colour for a split.
 */
#ifndef HP_MEETING_H
#define HP_MEETING_H

#include "rendezvous/message.h"
#include "rendezvous/stall_warning.h"
#include "rendezvous/events.h"

/* One who came. */
typedef struct hp_seat {
    void *peer;
    hp_member who; /* rank: given, or -1 until hp_meeting_group; in a split the rank in the parent */
    int color, key;
    uint64_t started; /* operations of the parent */
} hp_seat;

/* A rank whose process has ended, as who started it says; size 0: none has. */
typedef struct hp_ended {
    int rank, size; /* of the whole job */
    char host[HP_HOST_TEXT];
} hp_ended;

typedef struct hp_meeting {
    struct hp_meeting *next; /* the owner's */
    const hp_outlet *outlet;
    char label[64]; /* "job 4f21c0de", for lines and sentences */
    uint64_t parent;
    uint32_t split;
    int size, came, capacity;
    hp_seat *seats;                  /* in order of arrival; sorted by hp_meeting_sort */
    char *agree;                     /* the first comer's settings */
    hoop_error failure;              /* code HOOP_SUCCESS: still open; else kept until deadline */
    uint64_t *told;                  /* ranks that have come to this meeting, as bits; survives the failure */
    uint64_t op_timeout, warn_after; /* the first comer's */
    uint64_t opened, deadline;
    uint64_t crossed; /* since when a rank has been in an operation that one who is here has not started; 0: none is */
    hp_nag nag;       /* the overseer's: a world that is not complete */
} hp_meeting;

/* Opened by its first JOIN, which must then be seated. NULL: out of memory. */
hp_meeting *hp_meeting_new(const hp_outlet *outlet, const char *label, const hp_join *first, uint64_t now);
void hp_meeting_free(hp_meeting *meeting); /* tells nobody; NULL is fine */

int hp_meeting_is(const hp_meeting *meeting, const hp_join *join); /* whether this JOIN belongs here */
int hp_meeting_has(const hp_meeting *meeting, int rank);           /* whether this rank was given and has come */

/*
 * Seats the peer, or refuses it with the error filled. A difference of size or settings ends the meeting for everyone:
 * all seated are told here, the newcomer by its owner.
 */
hoop_result hp_meeting_join(hp_meeting *meeting, void *peer, const hp_join *join, uint64_t now, hoop_error *error);
void hp_meeting_lost(hp_meeting *meeting, void *peer, uint64_t now); /* a world waits on, a split is over */
/*
 * Fails a world that waits for a rank that has ended. One of another size, or in which the server gives the ranks, may
 * do without it, and waits on.
 */
void hp_meeting_bereave(hp_meeting *meeting, const hp_ended *ended, uint64_t now);
/* A rank says that it will not come: a split is over with that, unless it is already. */
void hp_meeting_refuse(hp_meeting *meeting, int rank, const hoop_error *cause, uint64_t now);
int hp_meeting_is_known(const hp_meeting *meeting); /* every rank has come to it, before its failure or after */
/* Ends it: everyone seated is told and dismissed. Kept for a moment, so that late-comers learn the cause. */
void hp_meeting_fail(hp_meeting *meeting, const hoop_error *error, uint64_t now);
void hp_meeting_tick(hp_meeting *meeting, uint64_t now);

/*
 * When came == size: gives ranks to those without one and sorts by (colour, key, rank). Groups are then runs of seats:
 * hp_meeting_group returns the length of the one that begins at `first` (0: none) and numbers its ranks from 0.
 */
void hp_meeting_sort(hp_meeting *meeting);
int hp_meeting_group(hp_meeting *meeting, int first);

/* "3, 5-7" of the ranks whose bit in `set` equals `value`, cut with "and 12 more" where `out` is full; returns out. */
const char *hp_rank_list(const uint64_t *set, int n, int value, char *out, size_t size);

#endif
