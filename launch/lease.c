/* SPDX-License-Identifier: MIT */
/* lease: see lease.h. */
#include "launch/lease.h"

#include "base/clock.h"

#define PING_LEAST (HP_SEC / 10)
#define PING_MOST (3 * HP_SEC)
#define KNOCK_LEAST (HP_SEC / 2) /* a connection takes two round trips, and perhaps a retransmission */
#define KNOCK_MOST (2 * HP_SEC)
#define MARGIN_LEAST (3 * HP_SEC) /* `knock`, until an agent looks again, and its grace between TERM and KILL */
#define MARGIN_MOST (6 * HP_SEC)

static uint64_t
within(uint64_t value, uint64_t least, uint64_t most)
{
    return value < least ? least : value > most ? most : value;
}

/*
 * An outage of the whole time-out must end well: the last word came up to `ping` before it, and the first knock after it
 * is answered up to `knock` later. That is less than the margin. A second margin is the time that the ranks take to end.
 */
hp_lease
hp_lease_of(uint64_t timeout)
{
    uint64_t margin = within(timeout / 5, MARGIN_LEAST, MARGIN_MOST);
    return (hp_lease){.ping = within(timeout / 10, PING_LEAST, PING_MOST),
                      .knock = within(timeout / 15, KNOCK_LEAST, KNOCK_MOST),
                      .end = timeout + margin,
                      .most = 3 * timeout + margin,
                      .away = timeout / 2,
                      .lost = timeout + 2 * margin};
}

hp_lease_word
hp_lease_judge(const hp_lease *lease, uint64_t heard, uint64_t answered, uint64_t now)
{
    uint64_t alive = answered > heard ? answered : heard;
    if (now >= heard + lease->most || now >= alive + lease->end)
        return HP_LEASE_OVER;
    return now >= heard + 3 * lease->ping ? HP_LEASE_KNOCK : HP_LEASE_WAIT;
}
