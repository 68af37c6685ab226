/* SPDX-License-Identifier: MIT */
/* rings: the list of a job's rings: which ring a communicator is, and which JOINs the rings rule out. Pure. */
#ifndef HP_RINGS_H
#define HP_RINGS_H

#include "rendezvous/roster.h"

enum { HP_SPLITS_AHEAD = 64 }; /* how many splits a rank may be ahead of the slowest one */

/* The ring of this communicator; NULL: there is none, or comm is 0. */
hp_roster *hp_rings_find(hp_roster *rosters, uint64_t comm);

/* The same process as a member of the job's first ring; NULL: it is none. */
const hp_member *hp_rings_in_world(const hp_roster *rosters, const hp_member *who);

/* Whether a JOIN may go to a join group; else the reason, for the rank. */
hoop_result hp_rings_admit(hp_roster *rosters, const hp_join *join, hoop_error *error);

#endif
