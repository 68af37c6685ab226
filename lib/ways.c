/* SPDX-License-Identifier: MIT */
/* ways: see ways.h. The table forgets the oldest entry, which costs a later link a head start. */
#include "lib/ways.h"

#include "net/socket.h"

enum { KNOWN = 256 };

static struct {
    uint64_t host_id;
    hp_addr addr; /* without a port that means anything: processes of one host have different ones */
} known[KNOWN];
static unsigned noted; /* so many entries so far; all this under hp_socket_lock */

/* The number of the host's entry; -1: it has none. With the lock held. */
static int
find(uint64_t host_id)
{
    for (unsigned i = 0; i < noted && i < KNOWN; i++)
        if (known[i].host_id == host_id)
            return (int)i;
    return -1;
}

void
hp_ways_note(const hp_member *member, const hp_addr *winner)
{
    if (!member->other[0].length)
        return;
    hp_socket_lock();
    int at = find(member->host_id);
    if (at < 0 && !hp_addr_same_host(winner, &member->addr))
        at = (int)(noted++ % KNOWN);
    if (at >= 0) {
        known[at].host_id = member->host_id;
        known[at].addr = *winner;
    }
    hp_socket_unlock();
}

const hp_addr *
hp_ways_best(const hp_member *member)
{
    const hp_addr *best = &member->addr;
    hp_socket_lock();
    int at = member->other[0].length ? find(member->host_id) : -1;
    for (int i = 0; at >= 0 && i < HP_OTHERS; i++)
        if (hp_addr_same_host(&member->other[i], &known[at].addr))
            best = &member->other[i];
    hp_socket_unlock();
    return best;
}

static int
leads_there(const hp_addr *to, int on_this_host)
{
    hp_addr source;
    return hp_addr_route(&source, to) && (on_this_host || !hp_addr_same_host(&source, to));
}

hp_addr_list
hp_ways_list(const hp_member *member, const hp_member *me)
{
    const hp_addr *best = hp_ways_best(member);
    hp_addr_list to = {.n = 0};
    int here = member->host_id == me->host_id;
    if (!member->other[0].length || leads_there(best, here))
        to.addr[to.n++] = *best;
    if (best != &member->addr && leads_there(&member->addr, here))
        to.addr[to.n++] = member->addr;
    for (int i = 0; i < HP_OTHERS && member->other[i].length; i++)
        if (&member->other[i] != best && leads_there(&member->other[i], here))
            to.addr[to.n++] = member->other[i];
    if (to.n == 0)
        to.addr[to.n++] = member->addr; /* and the dial says why not */
    return to;
}
