/* SPDX-License-Identifier: MIT */
/* clock: nanoseconds that only grow, and that are nanoseconds. */
#include "lib/base/clock.h"

#include <time.h>

#include "t/tap/tap.h"

int
main(void)
{
    uint64_t before, after;
    int backwards = 0;

    tap_limit(60);
    plan(3);
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
    return 0;
}
