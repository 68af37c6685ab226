/* SPDX-License-Identifier: MIT */
/*
 * unreachable: the silent ranks of a stalled ring, and when a report from their hosts last arrived. Pure. A
 * rank that computes reports nothing either, so silence counts only if a report is due, or if the host does not take
 * the bytes sent to it.
 */
#ifndef HP_UNREACHABLE_H
#define HP_UNREACHABLE_H

#include "rendezvous/blame.h"
#include "rendezvous/events.h"

typedef struct hp_unreachable {
    int first, count; /* first: the lowest of them, or -1 */
    int waiting;      /* ranks in an operation that are not among them */
    int hosts;        /* 1: they are on several hosts */
    uint64_t spoke;   /* when anything of a rank on one of their hosts arrived last */
} hp_unreachable;

/*
 * Which ranks of a ring are silent, as a set (base/rank_set.h): those that wait in an operation or have not completed
 * `sequence`, and have sent nothing. peers: by rank, NULL where it is not connected. The caller frees it; NULL:
 * out of memory.
 */
uint64_t *hp_unreachable_mark(const hp_witness *witnesses, void *const *peers, const hp_events *events, int n,
                              uint64_t sequence, uint64_t heartbeat);

/* silent: as hp_unreachable_mark returns it. */
hp_unreachable hp_unreachable_find(const hp_witness *witnesses, const hp_member *members, const uint64_t *silent,
                                   int n);

/*
 * "ranks 4-6 and 9 (the first on node3) are unreachable or stopped; their hosts last spoke 1.2 s ago; 6 ranks have waited
 * 9.0 s in operation 17 (barrier)". blame: has the operation.
 */
void hp_unreachable_print(const hp_unreachable *unreachable, const hp_member *members, const uint64_t *silent, int n,
                          const hp_blame *blame, uint64_t stalled, uint64_t now, char *out, size_t size);

#endif
