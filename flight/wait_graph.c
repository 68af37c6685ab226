/* SPDX-License-Identifier: MIT */
/* wait_graph: see wait_graph.h. */
#include "flight/wait_graph.h"

#include <stddef.h>

void
hp_wait_graph_note(hp_wait_edge *known, const hp_wait_edge *wait, int ended)
{
    int better = wait->failed != known->failed ? wait->failed == ended : wait->since < known->since;
    if (!known->at || better)
        *known = *wait;
}

/* The process that this one awaits, if that awaits one itself; -1: the way ends. */
static int
next_of(const hp_wait_edge *waits, int process)
{
    const hp_wait_edge *w = &waits[process];
    return !w->is_last && waits[w->whom].whom >= 0 ? w->whom : -1;
}

/* In one ring the operation comes before splits, and these before messages. */
static int
is_older(const hp_wait_edge *a, const hp_wait_edge *b)
{
    if (a->ring != b->ring)
        return a->ring < b->ring;
    return a->kind != b->kind ? a->kind < b->kind : a->number < b->number;
}

/* Counts the processes of the circle in which the waiter is, and goes to the one in its oldest call. */
static void
go_round(const hp_wait_edge *waits, int first, hp_wait_finding *f)
{
    int start = f->waiter, at = start;
    do {
        f->circle++;
        f->closed |= at == first;
        f->waiter = is_older(&waits[at], &waits[f->waiter]) ? at : f->waiter;
        at = next_of(waits, at);
    } while (at != start);
}

/* By Brent: `mark` waits for the walk at ever longer distances, so a circle is found without a list of those seen. */
hp_wait_finding
hp_wait_graph_follow(const hp_wait_edge *waits, int first)
{
    hp_wait_finding f = {.waiter = first, .culprit = first, .hops = 1};
    int mark = first, distance = 0, most = 1;
    if (waits[first].whom < 0)
        return (hp_wait_finding){.waiter = -1, .culprit = first};
    for (int at; !f.circle && (at = next_of(waits, f.waiter)) >= 0;) {
        f.waiter = at;
        f.hops++;
        if (at == mark)
            go_round(waits, first, &f);
        else if (++distance == most) {
            mark = at;
            distance = 0;
            most *= 2;
        }
    }
    f.culprit = waits[f.waiter].whom;
    return f;
}
