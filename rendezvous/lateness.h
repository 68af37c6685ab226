/* SPDX-License-Identifier: MIT */
/*
 * lateness: which ranks call their collectives later than the others, by the times of every 1,024th call; pure. A time
 * counts for as much as is known of the rank's clock: what may be its error is no lateness.
 */
#ifndef HP_LATENESS_H
#define HP_LATENESS_H

#include <stdint.h>

#define HP_LATENESS_UNKNOWN UINT64_MAX

/* Of one rank; hoop_stats has the same. */
typedef struct hp_entry_times {
    uint64_t count, sum; /* how many times of calls, and their sum by a clock that is common to all, modulo 2^64 */
    uint64_t error;      /* the most by which the sum may be wrong, in ns */
} hp_entry_times;

/*
 * late[r]: by how many ns rank r calls later, on average, than the earliest rank; 0: not by more than the errors of the
 * two. Only ranks of the same count are compared, those of the count that most have. The others are HP_LATENESS_UNKNOWN,
 * and so are all before the first time. The differences of the sums must be below 2^63 ns.
 */
void hp_lateness(const hp_entry_times *of, int ranks, uint64_t *late);

#endif
