/* SPDX-License-Identifier: MIT */
/* clock: see clock.h. For deadlines and intervals only; nothing in the library needs the date. */
#include "base/clock.h"

#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define STOPPED HP_SEC

/* Zero would disarm a timer, and a library that makes the time run faster divides what it is given. */
#define LEAST_WAIT UINT64_C(1000)

uint64_t
hp_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * HP_SEC + (uint64_t)ts.tv_nsec;
}

uint64_t
hp_awake_time(hp_awake *clock, uint64_t now)
{
    if (now > clock->due && now - clock->due > STOPPED)
        clock->lost += now - clock->due;
    clock->due = now;
    return now - clock->lost;
}

uint64_t
hp_awake_when(const hp_awake *clock, uint64_t time)
{
    return time == HP_NEVER ? HP_NEVER : time + clock->lost;
}

void
hp_awake_sleep(hp_awake *clock, uint64_t until)
{
    clock->due = until > clock->due ? until : clock->due;
}

int
hp_timerfd_set(int fd, uint64_t when)
{
    struct itimerspec spec = {0};
    if (when != HP_NEVER) {
        uint64_t now = hp_now(), wait = when > now + LEAST_WAIT ? when - now : LEAST_WAIT;
        spec.it_value = (struct timespec){.tv_sec = (time_t)(wait / HP_SEC), .tv_nsec = (long)(wait % HP_SEC)};
    }
    return timerfd_settime(fd, 0, &spec, NULL) == 0; /* a library that fakes the time would move an absolute one */
}

int
hp_alarm_open(hp_alarm *alarm)
{
    *alarm = (hp_alarm){.when = HP_NEVER};
    hp_awake_sleep(&alarm->clock, HP_NEVER);
    alarm->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
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
    alarm->when = when;
    hp_awake_sleep(&alarm->clock, then);
    hp_timerfd_set(alarm->fd, then);
}

int
hp_alarm_rang(hp_alarm *alarm)
{
    uint64_t count;
    return read(alarm->fd, &count, sizeof(count)) >= 0 || errno != EAGAIN;
}
