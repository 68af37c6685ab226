/* SPDX-License-Identifier: MIT */
/* foreign: one table. */
#include "perf/foreign.h"

#include <stddef.h>

static const perf_foreign flags[] = {
    {'t', 1, "a rank of hoop-bench is one process; start more ranks (hooprun -n)"},
    {'m', 1, "hoop-bench times calls one by one; hoop_group_start(3) joins calls in a program"},
    {'p', 0, "every rank joins the ring by itself; leave -p out"},
    {'C', 0, "hoop-bench does not report processor time; put time(1) in front of hooprun"},
    {'T', 0, "the time limit of a call is HOOP_OP_TIMEOUT_MS, and that of the job is hooprun --timeout"},
    {'R', 0, "hoop does not register memory; leave -R out"},
    {'O', 1, "hoop-bench always measures both places; leave -O out"},
    {'G', 0, "hoop-bench does not run CUDA graphs; leave -G out"},
    {'y', 0, "hoop-bench does not use CUDA's default stream; leave -y out"},
    {'N', 1, "hoop-bench measures each size once; take more runs (-n), or start it again"},
    {'S', 0, "rows have no timestamps; -J records when the run began and ended"},
};

const perf_foreign *
perf_foreign_find(int flag)
{
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (flags[i].flag == flag)
            return &flags[i];
    return NULL;
}
