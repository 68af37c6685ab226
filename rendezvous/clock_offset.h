/* SPDX-License-Identifier: MIT */
/*
 * clock_offset: how far this host's monotonic clock is ahead of the server's, by questions and answers; pure. The server
 * has read its clock somewhere between a question and its answer, so half of that time is the error. It grows with age:
 * clocks of machines drift apart.
 */
#ifndef HP_CLOCK_OFFSET_H
#define HP_CLOCK_OFFSET_H

#include <stdint.h>

#define HP_CLOCK_UNKNOWN UINT64_MAX

enum { HP_CLOCK_DRIFT = 10000 }; /* in so many ns two clocks drift apart by 1 ns at most: 100 millionths */

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

#endif
