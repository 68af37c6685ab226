/* SPDX-License-Identifier: MIT */
/*
 * spin: how often a driver with nothing to do polls again, yielding, before it sleeps; pure. The number grows to `most`
 * where polling finds something or a sleep turns out to be short, and falls to none where sleeps are long, as on a
 * network slower than the processor. An idle processor is slow to wake, so polling pays where a rank has a processor
 * almost to itself; where more ranks share one, a rank that polls takes it from a rank that has something to do.
 */
#ifndef HP_SPIN_H
#define HP_SPIN_H

#include <stdint.h>

enum {
    HP_SPIN_SHORT_NS = 200000, /* polling would have spared a sleep below this, most of which is waking up */
    HP_SPIN_ALONE = 1000,      /* polls, where at most HP_SPIN_SHARE ranks have a processor together */
    HP_SPIN_SHARE = 2,
    HP_SPIN_COLOCATED = 50,
    HP_SPIN_TURN_NS = 50000,      /* so often the event loop has a turn meanwhile: a handshake has several messages */
    HP_SPIN_COUNTED_NS = 10000,   /* shorter waits are not counted: to look up what is awaited would lengthen them */
    HP_SPIN_LONGEST_NS = 10000000 /* other processes may keep the processor between two polls, but reports are due */
};

/* The most polls there may be: as set, or, below 0, by the ranks and processors on this host. */
static inline int64_t
hp_spin_most(int64_t set, int ranks, int processors)
{
    if (set >= 0)
        return set;
    return ranks <= HP_SPIN_SHARE * processors ? HP_SPIN_ALONE : HP_SPIN_COLOCATED;
}

/* Whether to poll for the n-th time, so long after the first one. */
static inline int
hp_spin_again(int64_t n, int64_t spins, uint64_t ns)
{
    return n <= spins && ns < HP_SPIN_LONGEST_NS;
}

/* Another poll, or a short sleep, has found something. */
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
