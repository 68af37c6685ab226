/* SPDX-License-Identifier: MIT */
/* limits: see limits.h. A machine with more processors than a cpu_set_t holds counts as a whole. */
#include "base/limits.h"

#include "base/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

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

static int
mask(cpu_set_t *set)
{
    CPU_ZERO(set);
    return sched_getaffinity(0, sizeof(*set), set) == 0;
}

int
hp_processors_count(void)
{
    cpu_set_t set;
    long online = mask(&set) ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
    return online > 1 ? (int)online : 1;
}

uint32_t
hp_processors_id(void)
{
    cpu_set_t set;
    return mask(&set) ? hp_crc32c(&set, sizeof(set)) : 0;
}

/* Read once for each pid: a program may lose sight of /proc later, and a forked one may be in another space. */
uint32_t
hp_pid_space(void)
{
    static _Atomic uint64_t known;
    uint64_t pid = (uint64_t)getpid(), last = atomic_load(&known);
    struct stat space;
    if (last >> 32 != pid) {
        last = pid << 32 | (stat("/proc/self/ns/pid", &space) == 0 ? (uint32_t)space.st_ino : 0);
        atomic_store(&known, last);
    }
    return (uint32_t)last;
}

void
hp_spare_hold(hp_spare *spare)
{
    if (spare->fd < 0)
        spare->fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int
hp_spare_give(hp_spare *spare, uint64_t now)
{
    if (spare->fd < 0)
        return 0;
    close(spare->fd);
    spare->fd = -1;
    if (!spare->since)
        spare->since = now;
    return 1;
}

int
hp_spare_is_short(int number)
{
    return number == EMFILE || number == ENFILE || number == ENOMEM || number == ENOBUFS;
}

void
hp_spare_was_enough(hp_spare *spare)
{
    if (spare->fd >= 0)
        spare->since = 0;
}

uint64_t
hp_spare_lacking(hp_spare *spare, uint64_t now)
{
    hp_spare_hold(spare);
    if (spare->fd >= 0 || !spare->since)
        return 0;
    return now > spare->since ? now - spare->since : 1;
}
