/* SPDX-License-Identifier: MIT */
/* spare: a descriptor is there when none is left, and how long descriptors have been missed is told until one is found. */
#include "base/limits.h"

#include "t/tap/tap.h"
#include "t/tools/descriptors.h"

#include <errno.h>
#include <unistd.h>

int
main(void)
{
    hp_spare spare = {.fd = -1};
    tap_limit(240);
    plan_lazy();
    hp_spare_hold(&spare);
    ok(spare.fd >= 0 && hp_spare_lacking(&spare, 100) == 0, "it is held, and nothing is missed");
    int last = dup(0), next = dup(0);
    close(next);
    allow_descriptors((unsigned)next);
    ok(dup(0) < 0 && hp_spare_is_short(errno), "no descriptor is left");
    ok(hp_spare_give(&spare, 100), "but the spare one");
    int fd = dup(0);
    ok(fd >= 0, "which can be used");
    ok(!hp_spare_give(&spare, 150), "once");
    is_int(50, (int)hp_spare_lacking(&spare, 150), "since then descriptors have been missed");
    hp_spare_was_enough(&spare);
    is_int(100, (int)hp_spare_lacking(&spare, 200), "also if another one is found, while the spare one is not held");
    close(fd);
    is_int(0, (int)hp_spare_lacking(&spare, 250), "it is held again");
    ok(hp_spare_give(&spare, 300) && (fd = dup(0)) >= 0, "and given again, before another one was found:");
    is_int(250, (int)hp_spare_lacking(&spare, 350), "that is the same want");
    close(last);
    is_int(0, (int)hp_spare_lacking(&spare, 400), "one is left for good, and the spare one is held");
    close(fd);
    hp_spare_was_enough(&spare);
    ok(hp_spare_give(&spare, 500) && dup(0) >= 0 && dup(0) >= 0 && hp_spare_lacking(&spare, 510) == 10,
       "a descriptor was found beside it: the next want is a new one");
    allow_descriptors((unsigned)next + 64); /* a leak checker opens some at the end */
    return 0;
}
