/* SPDX-License-Identifier: MIT */
/*
 * outlook: which processes wait in which places of their job: operations of its rings, splits, messages. Pure. A ring
 * counts only where it has stood still for some reports: a rank that works in another ring is late by itself. Who is in a
 * split sends no reports, but his connection is there.
 */
#ifndef HP_OUTLOOK_H
#define HP_OUTLOOK_H

#include "rendezvous/job_state.h"

typedef struct hp_outlook {
    const hp_job *job;
    const hp_roster *failed; /* a ring that has just failed, and still counts; NULL: none has */
    uint64_t heard;          /* the most recent report of any rank that waits */
} hp_outlook;

hp_outlook hp_outlook_of(const hp_job *job, const hp_roster *failed);

/* ns after which a rank of the ring is silent. */
uint64_t hp_outlook_silence(const hp_roster *ring);

/* A process that waits in a place, since when that place has stood still, or the process been there. */
typedef void hp_outlook_see(void *arg, const hp_member *who, const hp_wait_place *place, uint64_t since);

/* Each that waits in this ring, without its splits. */
void hp_outlook_ring(const hp_outlook *outlook, const hp_roster *ring, hp_outlook_see *see, void *arg);

/* Each that waits in the job. */
void hp_outlook_all(const hp_outlook *outlook, hp_outlook_see *see, void *arg);

/* A process that has come to a split just when the last reports came was late itself. */
int hp_outlook_just_came(const hp_outlook *outlook, const hp_wait_place *place, uint64_t since);

#endif
