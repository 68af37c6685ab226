/* SPDX-License-Identifier: MIT */
/*
 * blocks: where each rank's block lies in the larger array of a call whose ranks have counts of their own (allgatherv,
 * reduce_scatterv). Pure.
 */
#ifndef HP_BLOCKS_H
#define HP_BLOCKS_H

#include "base/call.h"

/* Elements. An empty block is at 0. */
typedef struct hp_block {
    uint64_t at, count;
} hp_block;

/* blocks[rank] from the caller's arrays of `size` entries; displs NULL: one block behind the other. */
void hp_blocks_fill(hp_block *blocks, const size_t *counts, const size_t *displs, int size);

/*
 * 1 if two ranks' blocks share an element: pair[0] < pair[1] are such ranks. The blocks may be in another order
 * afterwards. O(size) if the displacements ascend, else O(size log size).
 */
int hp_blocks_overlap(hp_block *blocks, const size_t *counts, const size_t *displs, int size, int pair[2]);

uint64_t hp_blocks_largest(const hp_block *blocks, int size); /* its count */

/* What the ranks must agree on: the counts, not where they have the blocks. */
uint32_t hp_blocks_checksum(const size_t *counts, int size);

#endif
