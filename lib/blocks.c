/* SPDX-License-Identifier: MIT */
/* blocks: see blocks.h. The sort is a heapsort: qsort(3) may allocate. */
#include "lib/blocks.h"

#include "base/wire.h"

void
hp_blocks_fill(hp_block *blocks, const size_t *counts, const size_t *displs, int size)
{
    uint64_t next = 0;
    for (int r = 0; r < size; r++) {
        uint64_t at = displs ? displs[r] : next;
        blocks[r] = (hp_block){counts[r] ? at : 0, counts[r]};
        next += counts[r];
    }
}

/* Lets block i sink until none below it begins later. */
static void
sink(hp_block *heap, size_t i, size_t size)
{
    for (size_t child = 2 * i + 1; child < size; i = child, child = 2 * i + 1) {
        child += child + 1 < size && heap[child + 1].at > heap[child].at;
        if (heap[child].at <= heap[i].at)
            return;
        hp_block larger = heap[child];
        heap[child] = heap[i];
        heap[i] = larger;
    }
}

static void
sort(hp_block *blocks, size_t size)
{
    for (size_t i = size / 2; i-- > 0;)
        sink(blocks, i, size);
    for (size_t last = size - 1; last > 0; last--) {
        hp_block largest = blocks[0];
        blocks[0] = blocks[last];
        blocks[last] = largest;
        sink(blocks, 0, last);
    }
}

/* The first block that is not empty and begins before the end of one before it; size: there is none. */
static int
first_clash(const hp_block *blocks, int size, int *with)
{
    *with = -1;
    for (int i = 0; i < size; i++) {
        if (blocks[i].count == 0)
            continue;
        if (*with >= 0 && blocks[i].at < blocks[*with].at + blocks[*with].count)
            return i;
        *with = i;
    }
    return size;
}

static int
rank_of(hp_block block, const size_t *counts, const size_t *displs, int except)
{
    int rank = 0;
    while (rank == except || counts[rank] != block.count || displs[rank] != block.at)
        rank++;
    return rank;
}

int
hp_blocks_overlap(hp_block *blocks, const size_t *counts, const size_t *displs, int size, int pair[2])
{
    int with;
    if (first_clash(blocks, size, &with) == size)
        return 0;
    sort(blocks, (size_t)size);
    int clash = first_clash(blocks, size, &with);
    if (clash == size)
        return 0;
    int one = rank_of(blocks[with], counts, displs, -1), other = rank_of(blocks[clash], counts, displs, one);
    pair[0] = one < other ? one : other;
    pair[1] = one < other ? other : one;
    return 1;
}

uint64_t
hp_blocks_largest(const hp_block *blocks, int size)
{
    uint64_t most = 0;
    for (int r = 0; r < size; r++)
        most = blocks[r].count > most ? blocks[r].count : most;
    return most;
}

uint32_t
hp_blocks_checksum(const size_t *counts, int size)
{
    uint32_t crc = 0;
    for (int r = 0; r < size; r++) {
        uint8_t bytes[8];
        hp_put64(bytes, counts[r]);
        crc = hp_crc32c_more(crc, bytes, sizeof(bytes));
    }
    return crc;
}
