/* SPDX-License-Identifier: MIT */
/* limit: see limit.h. */
#include "rendezvous/limit.h"

#include "base/clock.h"

uint64_t
hp_limit_shortest(const hp_witness *w, int n, uint64_t joined)
{
    uint64_t usual = joined ? joined : HP_NEVER, shortest = HP_NEVER;
    for (int i = 0; i < n; i++) {
        uint64_t limit = w[i].report.limit ? w[i].report.limit : usual;
        if (w[i].in_op && limit < shortest)
            shortest = limit;
    }
    return shortest;
}

int
hp_limit_overdue(const hp_witness *w, int n)
{
    for (int i = 0; i < n; i++)
        if (w[i].in_op && w[i].report.overdue)
            return i;
    return -1;
}
