/* SPDX-License-Identifier: MIT */
/* reduce: the CPU is asked once, because the question is slow in virtual machines. */
#include "gpu/reduce.h"

#include <stdatomic.h>

#ifdef __x86_64__
const hp_arith *const hp_ariths[] = {&hp_arith_avx512, &hp_arith_avx2, &hp_arith_plain, NULL};
#else
const hp_arith *const hp_ariths[] = {&hp_arith_plain, NULL};
#endif

const hp_arith *
hp_arith_best(void)
{
    static _Atomic(const hp_arith *) chosen; /* threads that race here store the same */
    const hp_arith *best = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (best)
        return best;
    const hp_arith *const *next = hp_ariths;
    while (next[1] && !(*next)->usable()) /* the last set is usable on every CPU */
        next++;
    atomic_store_explicit(&chosen, *next, memory_order_relaxed);
    return *next;
}
