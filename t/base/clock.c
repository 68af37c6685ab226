/* SPDX-License-Identifier: MIT */
/* clock: nanoseconds that only grow, and that are nanoseconds; also where the time of the day is faked. */
#include "base/clock.h"

#include "t/tap/tap.h"

#include <poll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { FASTER = 100 }; /* as a faked clock may go */

/* libfaketime moves every absolute time by as much as the time of the day, whatever the clock, and divides every wait. */
int
timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
    struct itimerspec moved = *new;
    if (flags & TFD_TIMER_ABSTIME)
        moved.it_value.tv_sec += 864000;
    else
        moved.it_value = (struct timespec){
            .tv_sec = moved.it_value.tv_sec / FASTER,
            .tv_nsec = (moved.it_value.tv_sec % FASTER * (long)HP_SEC + moved.it_value.tv_nsec) / FASTER};
    return (int)syscall(SYS_timerfd_settime, fd, flags, &moved, old);
}

static void
test_faked(void)
{
    hp_alarm alarm;
    struct pollfd p = {.fd = hp_alarm_open(&alarm), .events = POLLIN};
    hp_alarm_set(&alarm, hp_alarm_time(&alarm) + 20 * HP_MS);
    is_int(1, poll(&p, 1, 20000), "an alarm rings");
    is_int(1, hp_alarm_rang(&alarm), "... which is known");
    hp_alarm_set(&alarm, hp_alarm_time(&alarm) - HP_SEC);
    is_int(1, poll(&p, 1, 20000), "one of the past rings at once");
    close(p.fd);
}

/* What is not counted: more than a second between two looks, but for sleeps that were announced. */
static void
test_awake(void)
{
    hp_awake c = {.due = 100 * HP_SEC};
    is_uint(100 * HP_SEC, hp_awake_time(&c, 100 * HP_SEC), "a clock that is looked at goes");
    is_uint(101 * HP_SEC, hp_awake_time(&c, 101 * HP_SEC), "a look a second is enough");
    is_uint(101 * HP_SEC, hp_awake_time(&c, 107 * HP_SEC), "six seconds without one are not counted");
    is_uint(102 * HP_SEC, hp_awake_time(&c, 108 * HP_SEC), "it goes on from there");
    is_uint(112 * HP_SEC, hp_awake_when(&c, 106 * HP_SEC), "four seconds of it from now");
    is_uint(HP_NEVER, hp_awake_when(&c, HP_NEVER), "never stays never");
    hp_awake_sleep(&c, 118 * HP_SEC);
    is_uint(112 * HP_SEC, hp_awake_time(&c, 118 * HP_SEC), "a sleep of ten seconds that ends in time counts");
    hp_awake_sleep(&c, 128 * HP_SEC);
    is_uint(113 * HP_SEC, hp_awake_time(&c, 119 * HP_SEC), "so does one that somebody ends");
    hp_awake_sleep(&c, 121 * HP_SEC);
    is_uint(115 * HP_SEC, hp_awake_time(&c, 131 * HP_SEC),
            "of one that ends ten seconds late what was announced counts");
    hp_awake_sleep(&c, HP_NEVER);
    is_uint(1115 * HP_SEC, hp_awake_time(&c, 1131 * HP_SEC), "one without an end always counts");
    hp_awake_sleep(&c, 1120 * HP_SEC);
    is_uint(1115 * HP_SEC, hp_awake_time(&c, 1131 * HP_SEC),
            "one that was to end before the last look takes nothing back");
}

int
main(void)
{
    uint64_t before, after;
    int backwards = 0;
    tap_limit(240);
    plan(17);
    before = hp_now();
    for (int i = 0; i < 100000; i++) {
        uint64_t now = hp_now();
        backwards += now < before;
        before = now;
    }
    is_int(0, backwards, "100000 readings never go back");
    before = hp_now();
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    after = hp_now();
    ok(after - before >= 20 * HP_MS, "a sleep of 20 ms takes 20 ms or more (%lu us)",
       (unsigned long)((after - before) / 1000));
    ok(after - before < 50 * HP_SEC, "and is not measured in another unit");
    test_awake();
    test_faked();
    return 0;
}
