/* SPDX-License-Identifier: MIT */
/*
 * disagreement: a rank has received a frame of another call than its own. Pure. A rank sees the calls of its neighbours
 * only, and two of them may report the same difference. So the server waits for a moment until the ranks have told their
 * calls, and then says to all of them who differs from whom.
 */
#ifndef HP_DISAGREEMENT_H
#define HP_DISAGREEMENT_H

#include "rendezvous/blame.h"

/* All zero at the start. */
typedef struct hp_disagreement {
    hoop_error cause; /* as the first rank has reported it; code HOOP_SUCCESS: none has */
    uint64_t since;
} hp_disagreement;

/* Takes what a rank reports, if it is that another rank's call differs; the first report stays. 0: it is another cause. */
int hp_disagreement_note(hp_disagreement *disagreement, const hoop_error *cause, uint64_t now);

int hp_disagreement_is_open(const hp_disagreement *disagreement); /* one is noted */

/* Whether it is time for the verdict: all n ranks have told their calls, or have had a fifth of a second for it. */
int hp_disagreement_is_due(const hp_disagreement *disagreement, const hp_witness *witnesses, int n, uint64_t now);

/*
 * "rank 2 (node3) called barrier as operation 7, but rank 0 (node1) and 2 others called allreduce 7 of 5 x int8, sum": the
 * smaller group first. Of more than two calls, that of the reported rank, and of the others the one that most ranks made.
 * Without hosts, or names, where it would be too long. What the first rank has reported, if the ranks of that have not told
 * their calls.
 */
void hp_disagreement_error(const hp_disagreement *disagreement, const hp_witness *witnesses, const hp_member *members,
                           int n, hoop_error *error);

#endif
