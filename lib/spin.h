/* SPDX-License-Identifier: MIT */
/*
 * spin: how often a driver with nothing to do looks again, yielding, before it sleeps; pure. Up to `most` times where
 * that finds something or the sleep turned out to be short, down to none where sleeps are long, as on a network slower
 * than the processor.
 */
#ifndef HP_SPIN_H
#define HP_SPIN_H

#include <stdint.h>

enum { HP_SPIN_SHORT_NS = 50000 }; /* a sleep below this costs more than the looks that would have spared it */

/* Looking again, or a short sleep, has found something. */
static inline int64_t
hp_spin_found(int64_t spins, int64_t most)
{
    return spins < most / 2 ? 2 * spins + 1 : most;
}

/* The driver has slept for so long. */
static inline int64_t
hp_spin_slept(int64_t spins, int64_t most, uint64_t ns)
{
    return ns < HP_SPIN_SHORT_NS ? hp_spin_found(spins, most) : spins / 2;
}

#endif
