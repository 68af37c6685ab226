/* SPDX-License-Identifier: MIT */
/*
 * unreachable: the ranks of a stalled ring of which nothing is heard, and how long ago their hosts last spoke; pure. A rank
 * that computes says nothing either, so silence counts only where it ought to speak, or where its host does not even take
 * what it is told.
 */
#ifndef HP_UNREACHABLE_H
#define HP_UNREACHABLE_H

#include "rendezvous/blame.h"

typedef struct hp_unreachable {
    int first, count; /* the lowest rank, -1; how many */
    int waiting;      /* ranks in an operation that are not among them */
    uint64_t spoke;   /* when a rank of one of their hosts was last heard */
} hp_unreachable;

/* silent: by rank, 1 where it is; filled by the owner. */
hp_unreachable hp_unreachable_find(const hp_witness *witnesses, const hp_member *members, const uint8_t *silent, int n);

/* "ranks 4-6 and 9 (node3) are unreachable or stopped; their hosts last spoke 10.2 s ago; 6 ranks have waited 10.0 s". */
void hp_unreachable_print(const hp_unreachable *unreachable, const hp_member *members, const uint8_t *silent, int n,
                          uint64_t sequence, uint64_t stalled, uint64_t now, char *out, size_t size);

/* "4-6 and 9", "0, 2, 4 and 12 more": the ranks whose byte is 1; returns out. */
const char *hp_unreachable_list(const uint8_t *silent, int n, char *out, size_t size);

#endif
