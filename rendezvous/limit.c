/* SPDX-License-Identifier: MIT */
/* limit: see limit.h. */
#include "rendezvous/limit.h"

#include "base/clock.h"
#include "base/err.h"

#include <stdio.h>

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

void
hp_limit_overrun(const hp_witness *w, const hp_member *members, int n, int rank, uint64_t unreachable, uint64_t now,
                 hoop_error *error)
{
    uint64_t waited = w[rank].report.overdue + (now - w[rank].last_seen);
    hp_blame blame = hp_blame_find(w, n, unreachable);
    char text[256], operation[HP_OPERATION_TEXT];
    hp_blame_print(&blame, w, members, waited, text, sizeof(text));
    if (blame.guilt == HP_GUILT_LINK || blame.guilt == HP_GUILT_SELF) {
        blame.rank = rank;
        snprintf(text, sizeof(text), "rank %d (%s) has waited %.1f s for %s, which was the limit of that wait", rank,
                 members[rank].host, (double)waited / 1e9, hp_blame_operation(blame.sequence, &blame.call, operation));
    }
    hp_err_set(error, HOOP_ERR_TIMEOUT, "%s", text);
    error->rank = blame.rank;
    error->reporter = rank;
    error->sequence = blame.sequence;
}
