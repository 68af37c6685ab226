/* SPDX-License-Identifier: MIT */
/* reduce: which of the sets of loops this CPU can run. Asked once: the question itself is slow in virtual machines. */
#include "gpu/reduce.h"

#include <stdatomic.h>

extern const hp_arith hp_arith_plain;
#ifdef __x86_64__
extern const hp_arith hp_arith_avx2;
extern const hp_arith hp_arith_avx512;
const hp_arith *const hp_ariths[] = {&hp_arith_avx512, &hp_arith_avx2, &hp_arith_plain, NULL};
#else
const hp_arith *const hp_ariths[] = {&hp_arith_plain, NULL};
#endif

const hp_arith *
hp_arith_best(void)
{
    static _Atomic(const hp_arith *) chosen; /* threads that race here store the same */
    const hp_arith *best = atomic_load_explicit(&chosen, memory_order_relaxed);
    const hp_arith *const *next = hp_ariths;
    if (best)
        return best;
    while (next[1] && !(*next)->usable()) /* the last one always is */
        next++;
    atomic_store_explicit(&chosen, *next, memory_order_relaxed);
    return *next;
}
