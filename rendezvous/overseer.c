/* SPDX-License-Identifier: MIT */
/*
 * overseer: see overseer.h. A job with several rings that wait for each other is one standstill to its user: the ring
 * that was spoken of first is spoken of until it goes on or fails, then the next one has its turn.
 */
#include "rendezvous/overseer.h"

#include <stdio.h>

/* The ring that is spoken of, unless it has failed. */
static const hp_roster *
spoken_of(const hp_hall *hall)
{
    for (const hp_roster *r = hall->rosters; r; r = r->next)
        if (r->ring.comm == hall->nag_ring && r->state != HP_ROSTER_FAILED)
            return r;
    return NULL;
}

static const hp_roster *
longest_standing(const hp_hall *hall)
{
    const hp_roster *longest = NULL;
    for (const hp_roster *r = hall->rosters; r; r = r->next)
        if (r->state == HP_ROSTER_RUNNING && r->in_op_n && r->warn_after && (!longest || r->moved < longest->moved))
            longest = r;
    return longest;
}

void
hp_overseer_nag(hp_hall *hall, uint64_t now)
{
    char line[400], text[256];
    const hp_roster *r = hall->nag.since ? spoken_of(hall) : NULL;
    if (!r) {
        hall->nag.since = 0; /* that was said in other words */
        r = longest_standing(hall);
    }
    if (!r)
        return;
    hp_nag_word word = hp_nag_look(&hall->nag, r->warn_after, r->in_op_n > 0, r->moved, now);
    double seconds = (double)hall->nag.lasted / 1e9;
    hall->nag_ring = r->ring.comm;
    if (word == HP_NAG_SPEAK)
        snprintf(line, sizeof(line), "%s: %s", r->label, hp_roster_late(r, hall->nag.lasted, text, sizeof(text)));
    else if (word == HP_NAG_OVER)
        snprintf(line, sizeof(line), "%s: goes on after %.1f s", r->label, seconds);
    if (word != HP_NAG_QUIET)
        hall->outlet.warn(hall->outlet.arg, line);
}
