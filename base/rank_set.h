/* SPDX-License-Identifier: MIT */
/* rank_set: which ranks of a ring have a property, a bit for each. */
#ifndef HP_RANK_SET_H
#define HP_RANK_SET_H

#include "base/mem.h"

#include <stdint.h>

/* Of no rank out of n; free() it. NULL: out of memory. */
static inline uint64_t *
hp_rank_set_new(int n)
{
    return hp_alloc((size_t)n / 64 + 1, sizeof(uint64_t));
}

static inline int
hp_rank_set_has(const uint64_t *set, int rank)
{
    return (int)(set[rank / 64] >> (rank % 64) & 1);
}

static inline void
hp_rank_set_add(uint64_t *set, int rank)
{
    set[rank / 64] |= UINT64_C(1) << (rank % 64);
}

static inline void
hp_rank_set_remove(uint64_t *set, int rank)
{
    set[rank / 64] &= ~(UINT64_C(1) << (rank % 64));
}

#endif
