/* SPDX-License-Identifier: MIT */
/*
 * alarm: a descriptor that can be read when a time has come, by a clock that leaves out what its process was not run or
 * its owner was not asked.
 */
#ifndef HP_ALARM_H
#define HP_ALARM_H

#include "base/clock.h"

typedef struct hp_alarm {
    int fd; /* timerfd */
    hp_awake clock;
    uint64_t when;
} hp_alarm;

int hp_alarm_open(hp_alarm *alarm);                /* the descriptor, or -1: errno */
uint64_t hp_alarm_time(hp_alarm *alarm);           /* now, by its clock */
void hp_alarm_set(hp_alarm *alarm, uint64_t when); /* HP_NEVER: off */
int hp_alarm_rang(hp_alarm *alarm);                /* 1: since this was last asked */

#endif
