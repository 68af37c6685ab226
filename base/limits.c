/* SPDX-License-Identifier: MIT */
/* limits: see limits.h. */
#include "base/limits.h"

#include <fcntl.h>
#include <limits.h>

int
hp_limits_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > INT_MAX)
        return INT_MAX;
    return (int)limit.rlim_cur;
}

int
hp_limits_left(int most)
{
    int left = 0;
    for (int fd = hp_limits_descriptors() - 1; fd >= 0 && left < most; fd--)
        left += fcntl(fd, F_GETFD) < 0;
    return left;
}

int
hp_limits_raise_descriptors(struct rlimit *before)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max)
        return 0;
    struct rlimit raised = {limit.rlim_max, limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) != 0)
        return 0;
    if (before)
        *before = limit;
    return 1;
}
