/* SPDX-License-Identifier: MIT */
/*
 * blocks: the counts of an allgatherv or a reduce_scatterv in tests, and where each rank has the blocks, all drawn from
 * the call: call->root, which the library fills with a checksum, is the seed, and call->count the counts' sum.
 */
#ifndef T_SIM_BLOCKS_H
#define T_SIM_BLOCKS_H

#include "lib/blocks.h"

/*
 * blocks[0 ... size-1] as `rank` has them: in an order of its own, with gaps. Some seeds give one rank all, some give many
 * none, some all the same. Returns the elements that the blocks span.
 */
uint64_t sim_blocks(hp_block *blocks, const hp_call *call, int rank, int size);

/* Whether they lie in the ranks' order without gaps: then a caller may give no displacements. */
int sim_blocks_are_plain(const hp_call *call);

/* The block that element `at` of the larger array lies in; -1: it lies in a gap. */
int sim_block_at(const hp_block *blocks, int size, uint64_t at);

#endif
