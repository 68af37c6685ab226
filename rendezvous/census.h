/* SPDX-License-Identifier: MIT */
/*
 * census: the processes of a job, each once: where it waits, and when the server heard of it last, in any ring. Pure. It is
 * taken for one answer or one time-out: soon after that it is not true any more. Processes are the same if host and pid are.
 *
 * It costs n log n for n ranks of all rings together, and a question log n. One that only looks needs no memory, and costs n
 * for each question.
 */
#ifndef HP_CENSUS_H
#define HP_CENSUS_H

#include "rendezvous/outlook.h"
#include "rendezvous/stays.h"

typedef struct hp_known {
    uint64_t host_id;
    uint32_t pid;
    int stopped;
    uint64_t heard; /* 0: never */
    hp_stays stays;
    hp_stays settled; /* without splits to which it has just come */
} hp_known;

typedef struct hp_census {
    hp_outlook outlook;
    hp_known *known; /* in the order of host and pid; NULL: it only looks, or memory was out */
    size_t n;
} hp_census;

/* For one or two questions. failed: as in outlook.h. It has nothing to free. */
hp_census hp_census_look(const hp_job *job, const hp_roster *failed);

/* For many. Without memory for it, it only looks. */
hp_census hp_census_take(const hp_job *job, const hp_roster *failed, uint64_t now);
void hp_census_free(hp_census *census);

/* NULL: it is in no ring of the job, or the census only looks. */
const hp_known *hp_census_find(const hp_census *census, const hp_member *who);

/* Where this process waits, without splits to which it has just come. */
hp_stays hp_census_stays(const hp_census *census, const hp_member *who);

#endif
