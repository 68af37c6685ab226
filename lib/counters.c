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
hp_counters_wait(hp_counters *c, hp_awaited awaited, uint64_t now)
{
    c->awaited = awaited;
    hp_stopwatch_start(&c->waited[awaited.what], now);
    if (awaited.rank >= 0)
        hp_stopwatch_start(&c->waited_for[awaited.rank], now);
}

void
hp_counters_end_wait(hp_counters *c, uint64_t now)
{
    hp_stopwatch_stop(&c->waited[c->awaited.what], now);
    if (c->awaited.rank >= 0)
        hp_stopwatch_stop(&c->waited_for[c->awaited.rank], now);
    c->awaited.what = HP_WAIT_NONE;
}

/* Into the half that no reader has been sent to since the change before. */
static void
show_times(hp_counters *c)
{
    const hp_call_times *t = &c->times;
    const uint64_t words[HP_TIMES_WORDS] = {t->known.count, t->known.sum,   t->known.error,
                                            t->clock.at,    t->clock.error, (uint64_t)t->clock.offset};
    unsigned next = atomic_load_explicit(&c->shown, memory_order_relaxed) + 1;
    for (int i = 0; i < HP_TIMES_WORDS; i++)
        atomic_store(&c->times_shown[next % 2][i], words[i]);
    atomic_store(&c->shown, next);
}

void
hp_counters_add_time(hp_counters *c, uint64_t entered)
{
    hp_call_times_add(&c->times, entered);
    show_times(c);
}

void
hp_counters_set_clock(hp_counters *c, const hp_clock_offset *clock)
{
    hp_call_times_compared(&c->times, clock);
    show_times(c);
}

hp_entry_times
hp_counters_times(const hp_counters *c, int64_t *offset, uint64_t *error)
{
    uint64_t words[HP_TIMES_WORDS];
    unsigned shown;
    do {
        shown = atomic_load(&c->shown);
        for (int i = 0; i < HP_TIMES_WORDS; i++)
            words[i] = atomic_load(&c->times_shown[shown % 2][i]);
    } while (shown != atomic_load(&c->shown)); /* the half that was read may have changed meanwhile */
    const hp_clock_offset clock = {.at = words[3], .error = words[4], .offset = (int64_t)words[5]};
    *offset = clock.offset;
    *error = hp_clock_offset_error(&clock, hp_now());
    return (hp_entry_times){.count = words[0], .sum = words[1], .error = words[2]};
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
