/* SPDX-License-Identifier: MIT */
/* clock: see clock.h. For deadlines and intervals only; nothing in the library needs the date. */
#include "base/clock.h"

#include <time.h>

#define STOPPED HP_SEC

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
