/* SPDX-License-Identifier: MIT */
/* counters: see counters.h. */
#include "lib/counters.h"

#include "base/mem.h"

#include <stdlib.h>

int
hp_counters_open(hp_counters *c, int ranks)
{
    c->waited_for = hp_alloc((size_t)ranks, sizeof(*c->waited_for));
    c->ranks = c->waited_for ? ranks : 0;
    return c->waited_for != NULL;
}

void
hp_counters_close(hp_counters *c)
{
    free(c->waited_for);
    c->waited_for = NULL;
    c->ranks = 0;
}

void
hp_counters_wait(hp_counters *c, hp_flight_wait wait, int rank, uint64_t now)
{
    c->wait = wait;
    c->awaited = rank;
    hp_stopwatch_start(&c->waited[wait], now);
    if (rank >= 0)
        hp_stopwatch_start(&c->waited_for[rank], now);
}

void
hp_counters_end_wait(hp_counters *c, uint64_t now)
{
    hp_stopwatch_stop(&c->waited[c->wait], now);
    if (c->awaited >= 0)
        hp_stopwatch_stop(&c->waited_for[c->awaited], now);
    c->wait = HP_FLIGHT_NOTHING;
}

void
hp_counters_set_clock(hp_counters *c, const hp_clock_offset *clock)
{
    atomic_fetch_add(&c->clock_version, 1);
    atomic_store(&c->clock_at, clock->at);
    atomic_store(&c->clock_offset, (uint64_t)clock->offset);
    atomic_store(&c->clock_error, clock->error);
    atomic_fetch_add(&c->clock_version, 1);
}

uint64_t
hp_counters_clock(const hp_counters *c, int64_t *offset)
{
    hp_clock_offset clock;
    unsigned version;
    do {
        version = atomic_load(&c->clock_version);
        clock.at = atomic_load(&c->clock_at);
        clock.offset = (int64_t)atomic_load(&c->clock_offset);
        clock.error = atomic_load(&c->clock_error);
    } while (version % 2 == 1 || version != atomic_load(&c->clock_version));
    *offset = clock.offset;
    return hp_clock_offset_error(&clock, hp_now());
}

int
hp_counters_slowest(hp_counters *c, uint64_t *ns)
{
    int slowest = -1;
    *ns = 0;
    for (int rank = 0; rank < c->ranks; rank++) {
        uint64_t waited = hp_stopwatch_read(&c->waited_for[rank]);
        if (waited > *ns) {
            slowest = rank;
            *ns = waited;
        }
    }
    return slowest;
}
