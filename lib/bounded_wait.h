/* SPDX-License-Identifier: MIT */
/*
 * bounded_wait: a wait for other processes that ends at a deadline, and that the user hears of after a few seconds. By
 * hp_now(): the limit is a promise to the caller.
 */
#ifndef HP_BOUNDED_WAIT_H
#define HP_BOUNDED_WAIT_H

#include <stdint.h>

typedef struct hp_bounded_wait {
    uint64_t began, until, next; /* of the whole wait; and when the next line is due */
    int quiet;                   /* another rank of this host says it */
} hp_bounded_wait;

hp_bounded_wait hp_bounded_wait_of(uint64_t limit_ns, int quiet);

int hp_bounded_wait_left_ms(const hp_bounded_wait *wait);
int hp_bounded_wait_ms(const hp_bounded_wait *wait); /* for which the caller may sleep before it asks again */

/* 1: go on waiting for `what`, 0: the time is over, or the program has interrupted this call. After 5, 10, 20 ... seconds it writes a line. */
int hp_bounded_wait_ask(hp_bounded_wait *wait, const char *what);

#endif
