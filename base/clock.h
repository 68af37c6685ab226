/* SPDX-License-Identifier: MIT */
/* clock: CLOCK_MONOTONIC, and a clock that does not count the time in which the process was stopped. */
#ifndef HP_CLOCK_H
#define HP_CLOCK_H

#include <stdint.h>

#define HP_MS UINT64_C(1000000)     /* nanoseconds in a millisecond */
#define HP_SEC UINT64_C(1000000000) /* nanoseconds in a second */
#define HP_NEVER UINT64_MAX         /* a deadline that is never reached */

uint64_t hp_now(void); /* nanoseconds */

/*
 * A clock for limits by which other ranks are judged. It stops when it has not been read for more than a second: then
 * the process was stopped (Ctrl-Z, a paused container or virtual machine) or did something else, and has not received
 * what the others sent meanwhile. A caller that sleeps for longer sets until when. Pure. CLOCK_MONOTONIC itself does
 * not count the time in which the machine was suspended.
 */
typedef struct hp_awake {
    uint64_t due;  /* the clock was to be read by then */
    uint64_t lost; /* time that is not counted */
} hp_awake;

/* Reads the clock; it never goes back. */
uint64_t hp_awake_time(hp_awake *clock, uint64_t now);

/* The same time by hp_now(), if no more time is lost; HP_NEVER stays HP_NEVER. */
uint64_t hp_awake_when(const hp_awake *clock, uint64_t time);

/* The clock is read again by `until`; HP_NEVER: at some time; a time in the past means nothing. */
void hp_awake_sleep(hp_awake *clock, uint64_t until);

#endif
