/* SPDX-License-Identifier: MIT */
/*
 * lateness: which ranks call their collectives later than the others, by the times of every 1,024th call; and what a rank
 * knows of the server's clock, by which these are compared. Pure. A time counts for as much as is known of the rank's clock:
 * what may be its error is no lateness.
 */
#ifndef HP_LATENESS_H
#define HP_LATENESS_H

#include <stdint.h>

#define HP_CLOCK_UNKNOWN UINT64_MAX

enum { HP_CLOCK_DRIFT = 10000 }; /* in so many ns two clocks drift apart by 1 ns at most: 100 millionths */

/*
 * How far this host's monotonic clock is ahead of the server's, by questions and answers. The server has read its clock
 * somewhere between a question and its answer, so half of that time is the error. It grows with age: clocks drift apart.
 */
typedef struct hp_clock_offset {
    uint64_t at; /* when the answer came; 0: none has */
    int64_t offset;
    uint64_t error; /* then */
} hp_clock_offset;

/* The error at `now`, in ns; HP_CLOCK_UNKNOWN: no answer has come. */
uint64_t hp_clock_offset_error(const hp_clock_offset *clock, uint64_t now);

/*
 * Asked at `asked`, the server's clock was at `server`, and the answer came at `now`. What is known stays, if its error
 * is smaller even now. An answer from the future is dropped.
 */
void hp_clock_offset_take(hp_clock_offset *clock, uint64_t asked, uint64_t server, uint64_t now);

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
