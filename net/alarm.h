/* SPDX-License-Identifier: MIT */
/*
 * alarm: a descriptor that becomes readable at a given time. Its clock (hp_awake) does not count time in which the
 * process was stopped or the owner did not ask.
 */
#ifndef HP_ALARM_H
#define HP_ALARM_H

#include "base/clock.h"

typedef struct hp_alarm {
    int fd; /* timerfd */
    hp_awake clock;
    uint64_t when;
} hp_alarm;

int hp_alarm_open(hp_alarm *alarm);                /* returns the descriptor, or -1 with errno */
uint64_t hp_alarm_time(hp_alarm *alarm);           /* now, by its clock */
void hp_alarm_set(hp_alarm *alarm, uint64_t when); /* HP_NEVER: off */
int hp_alarm_rang(hp_alarm *alarm);                /* 1: it rang since the last call */

#endif
