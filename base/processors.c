/* SPDX-License-Identifier: MIT */
/* processors: see processors.h. A machine with more processors than a cpu_set_t holds counts as a whole. */
#include "base/processors.h"

#include "base/wire.h"

#include <sched.h>
#include <unistd.h>

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
