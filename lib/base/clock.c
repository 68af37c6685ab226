/* SPDX-License-Identifier: MIT */
/* clock: the one place that asks the system for the time. Deadlines and intervals only; nobody here knows the date. */
#include "lib/base/clock.h"

#include <time.h>

uint64_t
hp_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * HP_SEC + (uint64_t)ts.tv_nsec;
}
