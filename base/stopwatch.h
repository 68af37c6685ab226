/* SPDX-License-Identifier: MIT */
/*
 * stopwatch: adds up spans of time. One thread at a time starts and stops it, and any thread reads it meanwhile, without
 * a lock, because all that changes is one word. What is read never goes back.
 */
#ifndef HP_STOPWATCH_H
#define HP_STOPWATCH_H

#include "base/clock.h"

#include <stdatomic.h>

typedef struct hp_stopwatch { /* zeros at first */
    _Atomic uint64_t ns;   /* stopped: so far. Running: HP_STOPWATCH_RUNS, and since when it would have run for all */
    _Atomic uint64_t read; /* the most that was read: its thread stops it at a time that others may have passed */
} hp_stopwatch;

#define HP_STOPWATCH_RUNS (UINT64_C(1) << 63)

/* Times are by hp_now(). One that runs goes on. */
static inline void
hp_stopwatch_start(hp_stopwatch *watch, uint64_t now)
{
    uint64_t ns = atomic_load_explicit(&watch->ns, memory_order_relaxed);
    if (!(ns & HP_STOPWATCH_RUNS))
        atomic_store_explicit(&watch->ns, HP_STOPWATCH_RUNS | (now - ns), memory_order_release);
}

/* One that is stopped stays so. */
static inline void
hp_stopwatch_stop(hp_stopwatch *watch, uint64_t now)
{
    uint64_t since = atomic_load_explicit(&watch->ns, memory_order_relaxed);
    if (since & HP_STOPWATCH_RUNS)
        atomic_store_explicit(&watch->ns, now - (since & ~HP_STOPWATCH_RUNS), memory_order_release);
}

/* ns, from any thread. The clock is read after the word, so that it cannot be behind it. */
static inline uint64_t
hp_stopwatch_read(hp_stopwatch *watch)
{
    uint64_t ns = atomic_load_explicit(&watch->ns, memory_order_acquire);
    uint64_t most = atomic_load_explicit(&watch->read, memory_order_relaxed);
    if (ns & HP_STOPWATCH_RUNS)
        ns = hp_now() - (ns & ~HP_STOPWATCH_RUNS);
    while (most < ns && !atomic_compare_exchange_weak(&watch->read, &most, ns))
        ;
    return most < ns ? ns : most;
}

#endif
