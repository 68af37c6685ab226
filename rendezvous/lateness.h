/* SPDX-License-Identifier: MIT */
/*
 * lateness: which ranks call their collectives later than the others, by the times of every 1,024th call; pure. A clock
 * counts for as much as is known of it: what may be its error is no lateness.
 */
#ifndef HP_LATENESS_H
#define HP_LATENESS_H

#include <stdint.h>

#define HP_LATENESS_UNKNOWN UINT64_MAX

/* Of one rank; hoop_stats has the same. */
typedef struct hp_entry_times {
    uint64_t count, sum; /* how many times of calls, and their sum by the rank's clock, modulo 2^64 */
    int64_t offset;      /* ns that this clock is ahead of one that is common to all, */
    uint64_t error;      /* and the most by which that may be wrong; HP_LATENESS_UNKNOWN: it is not known */
} hp_entry_times;

/*
 * late[r]: by how many ns rank r calls later, on average, than the earliest rank; 0: not by more than the errors of the
 * two clocks. Only ranks of the same count are compared, those of the count that most have. The others, and those whose
 * clock is not known, are HP_LATENESS_UNKNOWN, and so are all before the first time. The differences of the sums by the
 * common clock must be below 2^63 ns.
 */
void hp_lateness(const hp_entry_times *of, int ranks, uint64_t *late);

#endif
