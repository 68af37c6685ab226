/* SPDX-License-Identifier: MIT */
/* clock: CLOCK_MONOTONIC and nothing else. */
#ifndef HP_CLOCK_H
#define HP_CLOCK_H

#include <stdint.h>

#define HP_MS UINT64_C(1000000)     /* nanoseconds in a millisecond */
#define HP_SEC UINT64_C(1000000000) /* nanoseconds in a second */
#define HP_NEVER UINT64_MAX         /* a deadline that does not come */

uint64_t hp_now(void); /* nanoseconds */

/*
 * A clock for limits by which others are judged. It stands still while nobody looks at it for more than a second: then the
 * process was stopped (Ctrl-Z, a paused container or virtual machine) or did something else, and has not heard what the
 * others said meanwhile. Who sleeps longer says until when. Pure; CLOCK_MONOTONIC itself does not count the time in
 * which the machine was suspended.
 */
typedef struct hp_awake {
    uint64_t due;  /* a look was to come by then */
    uint64_t lost; /* so much is not counted */
} hp_awake;

uint64_t hp_awake_time(hp_awake *clock, uint64_t now);        /* looks; never goes back */
uint64_t hp_awake_when(const hp_awake *clock, uint64_t time); /* by hp_now(), if nothing more is lost; NEVER stays */
void
hp_awake_sleep(hp_awake *clock,
               uint64_t until); /* the next look comes by then; HP_NEVER: some day. What is past announces nothing */

#endif
