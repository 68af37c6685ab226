/* SPDX-License-Identifier: MIT */
/* clock_offset: see clock_offset.h. */
#include "rendezvous/clock_offset.h"

uint64_t
hp_clock_offset_error(const hp_clock_offset *c, uint64_t now)
{
    if (c->at == 0)
        return HP_CLOCK_UNKNOWN;
    return c->error + (now > c->at ? (now - c->at) / HP_CLOCK_DRIFT : 0);
}

void
hp_clock_offset_take(hp_clock_offset *c, uint64_t asked, uint64_t server, uint64_t now)
{
    uint64_t half = (now - asked) / 2;
    uint64_t error =
        half + 1 + (now - asked) / HP_CLOCK_DRIFT; /* half may be rounded down, and clocks drift meanwhile */
    if (asked > now || error > hp_clock_offset_error(c, now))
        return;
    *c = (hp_clock_offset){.at = now, .offset = (int64_t)(asked + half - server), .error = error};
}
