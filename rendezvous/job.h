/* SPDX-License-Identifier: MIT */
/*
 * job: everything that goes on in one job: its meetings, its rings, and where each control connection stands; pure: no
 * I/O, no clock of its own. Jobs never meet, because each has a hall of its own. server.c puts sockets around it, the
 * tests and the fuzzer put nothing.
 */
#ifndef HP_HALL_H
#define HP_HALL_H

#include "net/handshake.h"
#include "rendezvous/stall_warning.h"
#include "rendezvous/roster.h"

typedef struct hp_hall {
    struct hp_hall *next; /* the owner's */
    uint8_t job[HP_JOB];
    char label[32]; /* "job 4f21c0de" */
    const hp_outlet *owner;
    hp_outlet outlet; /* what meetings and rosters are given: notes the guest's new place, then asks the owner */
    hp_meeting *meetings;
    hp_roster *rosters;
    uint64_t next_comm;
    int guests;
    hp_nag nag;        /* of one ring at a time, however many stand still */
    uint64_t nag_ring; /* its communicator */
    hp_ended ended;    /* the first of the job's processes that has, where somebody tells us */
    int world;         /* the largest size that somebody who has proven itself has declared */
} hp_hall;

/* One control connection; the owner embeds it, and gets its address back as the outlet's `peer`. */
typedef struct hp_guest {
    hp_hall *hall;
    int where; /* HP_AT_DOOR, HP_AT_MEETING; else it is seated and the roster knows */
    int done;  /* refused or dismissed: nothing more is heard */
    uint32_t rank_said, world_said;
    uint64_t parent_said; /* what its HELLO declared; JOIN must say the same */
    hp_meeting *meeting;
    hp_roster *roster;
    int rank;
    int returned; /* it has taken its seat again: it knows the roster */
} hp_guest;

/* comm_seed: random, so that communicators of a restarted server or of another job differ. NULL: out of memory. */
hp_hall *hp_hall_new(const hp_outlet *owner, const uint8_t job[HP_JOB], uint64_t comm_seed);
void hp_hall_free(hp_hall *hall);       /* tells nobody */
int hp_hall_idle(const hp_hall *hall);  /* nobody is here or has ended, nothing is kept: it may be freed */
int hp_hall_timed(const hp_hall *hall); /* whether it needs ticks */

/*
 * The process of rank `rank` of the `size` in this job has ended well and joins nothing any more: worlds that wait for
 * it fail now, and those that are opened later as soon as somebody comes. The hall is kept for that.
 */
void hp_hall_ended(hp_hall *hall, int rank, int size, const char *host, uint64_t now);

/* Whether a proven connection may enter; hall NULL: the job's first. HP_FULL: more of them than its ranks can need. */
hp_status hp_hall_judge(const hp_hall *hall, const hp_hello *hello);
/* How many of its ranks may knock at once from one address: as many as it says it has, where enough have proven it. */
int hp_hall_expects(const hp_hall *hall);
void hp_hall_enter(hp_hall *hall, hp_guest *guest, const hp_hello *hello);

/* One control frame. 0, or -1 with the error filled: a breach of protocol; the owner closes and calls hp_hall_lost. */
int hp_hall_message(hp_guest *guest, int type, const uint8_t *payload, size_t n, uint64_t now, hoop_error *error);
/* The connection is closed. `why` as for hp_roster_lost; it is said only of members. */
void hp_hall_lost(hp_guest *guest, const char *why, uint64_t now);
/* The connection broke in a way that is no end: whoever was at the other side may still be there, and dial again. */
void hp_hall_broke(hp_guest *guest, uint64_t now);
void hp_hall_tick(hp_hall *hall, uint64_t now);

#endif
