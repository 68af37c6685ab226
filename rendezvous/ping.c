/* SPDX-License-Identifier: MIT */
/* ping: see ping.h. */
#include "rendezvous/ping.h"

enum { PING_MS = 1000 };

static void
ping(const hp_ring_view *view, int rank)
{
    view->events->send(view->events->arg, view->peers[rank], HP_PING, NULL, 0);
}

/* Ranks that have not entered the operation get one for each stall. */
static void
ping_absent(hp_pings *pings, const hp_ring_view *view, uint64_t limit, uint64_t now)
{
    if (now - view->moved < (limit / 2 < HP_ASK_AFTER ? limit / 2 : HP_ASK_AFTER) || pings->absent == view->moved)
        return;
    pings->absent = view->moved;
    for (int i = 0; i < view->size; i++)
        if (!view->witnesses[i].in_op && !view->witnesses[i].left && view->peers[i])
            ping(view, i);
}

void
hp_pings_send(hp_pings *pings, const hp_ring_view *view, uint64_t limit, uint64_t now)
{
    ping_absent(pings, view, limit, now);
    if (now - pings->waiting < PING_MS * HP_MS)
        return;
    pings->waiting = now;
    for (int i = 0; i < view->size; i++)
        if (view->witnesses[i].in_op && view->peers[i])
            ping(view, i);
}
