/* SPDX-License-Identifier: MIT */
/*
 * count: numbers that one thread at a time changes, at the price of plain ones, and any thread reads meanwhile without a
 * lock: a count, and a stopwatch, which adds up spans of time. What is read never goes back.
 */
#ifndef HP_COUNT_H
#define HP_COUNT_H

#include "base/clock.h"

#include <stdatomic.h>
#include <stdint.h>

typedef _Atomic uint64_t hp_count;

static inline uint64_t
hp_count_read(const hp_count *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static inline void
hp_count_set(hp_count *count, uint64_t n)
{
    atomic_store_explicit(count, n, memory_order_relaxed);
}

static inline void
hp_count_add(hp_count *count, uint64_t n)
{
    hp_count_set(count, hp_count_read(count) + n);
}

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
