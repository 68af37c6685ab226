/* SPDX-License-Identifier: MIT */
/* alarm: see alarm.h. */
#include "net/alarm.h"

#include "net/socket.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <unistd.h>

int
hp_alarm_open(hp_alarm *alarm)
{
    *alarm = (hp_alarm){.when = HP_NEVER};
    hp_awake_sleep(&alarm->clock, HP_NEVER);
    alarm->fd = hp_socket_raise(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    return alarm->fd;
}

uint64_t
hp_alarm_time(hp_alarm *alarm)
{
    uint64_t now = hp_awake_time(&alarm->clock, hp_now());
    hp_awake_sleep(&alarm->clock, hp_awake_when(&alarm->clock, alarm->when));
    return now;
}

void
hp_alarm_set(hp_alarm *alarm, uint64_t when)
{
    uint64_t then = hp_awake_when(&alarm->clock, when);
    struct itimerspec spec = {0};
    alarm->when = when;
    hp_awake_sleep(&alarm->clock, then);
    if (then != HP_NEVER) {
        spec.it_value.tv_sec = (time_t)(then / HP_SEC);
        spec.it_value.tv_nsec = (long)(then % HP_SEC);
    }
    timerfd_settime(alarm->fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

int
hp_alarm_rang(hp_alarm *alarm)
{
    uint64_t count;
    return read(alarm->fd, &count, sizeof(count)) >= 0 || errno != EAGAIN;
}
