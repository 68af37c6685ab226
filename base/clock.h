/* SPDX-License-Identifier: MIT */
/* clock: CLOCK_MONOTONIC, a clock that does not count the time in which the process was stopped, and alarms. */
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

/* Sets a timerfd to a time by hp_now(); HP_NEVER: off. Returns 1 if it is set. */
int hp_timerfd_set(int fd, uint64_t when);

/*
 * A timerfd that becomes readable at a time by such a clock, which does not count time either in which the owner did not
 * ask.
 */
typedef struct hp_alarm {
    int fd;
    hp_awake clock;
    uint64_t when;
} hp_alarm;

int hp_alarm_open(hp_alarm *alarm);                /* returns the descriptor, or -1 with errno */
uint64_t hp_alarm_time(hp_alarm *alarm);           /* now, by its clock */
void hp_alarm_set(hp_alarm *alarm, uint64_t when); /* HP_NEVER: off */
int hp_alarm_rang(hp_alarm *alarm);                /* 1: it rang since the last call */

#endif
