/* SPDX-License-Identifier: MIT */
/* count: a number that one thread at a time adds to, at the price of a plain one, and any thread reads. */
#ifndef HP_COUNT_H
#define HP_COUNT_H

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

#endif
