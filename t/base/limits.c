/* SPDX-License-Identifier: MIT */
/* limits: the soft limit of descriptors is read, raised to the hard one once, and told for child processes; what is left of it. */
#include "base/limits.h"

#include "t/tap/tap.h"

#include <unistd.h>

static void
lower(rlim_t soft, rlim_t hard)
{
    struct rlimit limit = {soft, hard};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        bail("cannot lower the limit of descriptors");
}

int
main(void)
{
    struct rlimit before = {1, 1}, now;
    tap_limit(240);
    plan_lazy();
    lower(64, 96);
    is_int(64, hp_limits_descriptors(), "the soft limit is read");
    ok(hp_limits_raise_descriptors(&before), "the limit is raised");
    ok(before.rlim_cur == 64 && before.rlim_max == 96, "what it was is told");
    ok(getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_cur == 96 && now.rlim_max == 96, "it is the hard limit now");
    is_int(96, hp_limits_descriptors(), "and is read as that");
    before = (struct rlimit){1, 1};
    ok(!hp_limits_raise_descriptors(&before) && before.rlim_cur == 1, "a second time nothing is changed or told");
    is_int(7, hp_limits_left(7), "of many that are left, so many are counted as are asked for");
    lower(16, 96);
    int most = hp_limits_left(100), opened = 0;
    while (dup(0) >= 0)
        opened++;
    is_int(opened, most, "what is left can be opened");
    is_int(0, hp_limits_left(100), "and then nothing is left");
    lower(32, 96);
    ok(hp_limits_raise_descriptors(NULL) && hp_limits_descriptors() == 96, "what it was need not be asked for");
    return 0;
}
