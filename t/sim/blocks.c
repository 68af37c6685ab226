/* SPDX-License-Identifier: MIT */
/* blocks: see blocks.h. */
#include "t/sim/blocks.h"

#include "t/tap/tap.h"

enum { SHAPES = 4 };

/* What rank r takes of what the ranks before it have left. */
static uint64_t
taken(uint64_t seed, uint64_t left, int r, int size)
{
    uint64_t random = tap_mix(seed + (uint64_t)r), chosen = seed / SHAPES % (uint64_t)size;
    if (r == size - 1)
        return left;
    switch (seed % SHAPES) {
    case 0: return chosen == (uint64_t)r ? left : 0;
    case 1: return left / (uint64_t)(size - r);
    case 2: return random % 2 ? left / 2 : 0;
    default: return random % (2 * left / (uint64_t)(size - r) + 1);
    }
}

int
sim_blocks_are_plain(const hp_call *call)
{
    return (int)((uint32_t)call->root / 256 % 4 == 3);
}

uint64_t
sim_blocks(hp_block *blocks, const hp_call *call, int rank, int size)
{
    uint64_t seed = (uint32_t)call->root, left = call->count, at = 0;
    int backwards = (int)(seed / 64 % 2), plain = sim_blocks_are_plain(call);
    for (int r = 0; r < size; r++) {
        blocks[r].count = taken(seed, left, r, size);
        left -= blocks[r].count;
    }
    for (int k = 0; k < size; k++) {
        int r = plain ? k : (backwards ? size - 1 - k + rank : k + rank) % size;
        at += plain ? 0 : tap_mix(seed + (uint64_t)rank * 1024 + (uint64_t)k) % 3 * (seed / 128 % 2);
        blocks[r].at = at;
        at += blocks[r].count;
    }
    return at;
}

int
sim_block_at(const hp_block *blocks, int size, uint64_t at)
{
    for (int r = 0; r < size; r++)
        if (at >= blocks[r].at && at - blocks[r].at < blocks[r].count)
            return r;
    return -1;
}
