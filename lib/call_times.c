/* SPDX-License-Identifier: MIT */
/* call_times: see call_times.h. */
#include "lib/call_times.h"

static uint64_t
distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* The clocks may have drifted apart between a call and their comparison, whichever came first. */
static void
settle(hp_call_times *t)
{
    const hp_clock_offset *clock = &t->clock;
    if (clock->at == 0 || t->early == 0)
        return;
    uint64_t before = distance(clock->at, t->earliest), after = distance(clock->at, t->last);
    uint64_t drift = (before > after ? before : after) / HP_CLOCK_DRIFT + 1; /* rounded up */
    t->known.count += t->early;
    t->known.sum += t->sum - t->early * (uint64_t)clock->offset;
    t->known.error += t->early * (clock->error + drift);
    t->early = t->sum = 0;
}

void
hp_call_times_add(hp_call_times *t, uint64_t called)
{
    if (t->early++ == 0)
        t->earliest = called;
    t->last = called;
    t->sum += called;
    settle(t);
}

void
hp_call_times_compared(hp_call_times *t, const hp_clock_offset *clock)
{
    t->clock = *clock;
    settle(t);
}
