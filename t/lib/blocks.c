/* SPDX-License-Identifier: MIT */
/* Where blocks lie, and whether two overlap, against every pair looked at; the checksum tells counts apart. */
#include "lib/blocks.h"

#include "t/tap/tap.h"

enum { MOST = 40 };

static size_t counts[MOST], displs[MOST];

static int
clash(int a, int b)
{
    return counts[a] > 0 && counts[b] > 0 && displs[a] < displs[b] + counts[b] && displs[b] < displs[a] + counts[a];
}

static int
any_clash(int size)
{
    int found = 0;
    for (int a = 0; a < size; a++)
        for (int b = a + 1; b < size; b++)
            found |= clash(a, b);
    return found;
}

/* Apart, in an order of chance; then some are moved, and may overlap. */
static void
draw(int size, int moved)
{
    int order[MOST];
    size_t at = 0;
    tap_shuffle(order, size);
    for (int k = 0; k < size; k++) {
        counts[order[k]] = tap_pick(4) ? tap_pick(10) : 0;
        displs[order[k]] = at;
        at += counts[order[k]] + tap_pick(2) * tap_pick(3);
    }
    for (int k = 0; k < moved; k++)
        displs[tap_pick((uint64_t)size)] = tap_pick(at + 10);
}

static void
test_overlap(void)
{
    int right = 1, found = 0;
    for (int k = 0; k < 50000 && right; k++) {
        hp_block blocks[MOST];
        int size = 1 + (int)tap_pick(MOST), pair[2] = {-1, -1};
        draw(size, (int)tap_pick(3));
        hp_blocks_fill(blocks, counts, displs, size);
        int overlap = hp_blocks_overlap(blocks, counts, displs, size, pair);
        right = case_int(any_clash(size), overlap, "case %d, %d blocks", k, size);
        if (overlap && right)
            right = case_ok(pair[0] < pair[1] && pair[0] >= 0 && pair[1] < size && clash(pair[0], pair[1]),
                            "case %d: blocks %d and %d", k, pair[0], pair[1]);
        found += overlap;
    }
    ok(right, "overlaps are found, and two blocks that do are named");
    ok(found > 5000 && found < 45000, "some overlap, some do not (%d of 50000)", found);
}

static void
test_fill(void)
{
    static const size_t some[4] = {3, 0, 5, 7}, places[4] = {9, 100, 0, 20};
    hp_block blocks[4];
    hp_blocks_fill(blocks, some, NULL, 4);
    ok(blocks[0].at == 0 && blocks[1].at == 0 && blocks[2].at == 3 && blocks[3].at == 8 && blocks[3].count == 7,
       "without displacements one behind the other");
    hp_blocks_fill(blocks, some, places, 4);
    ok(blocks[0].at == 9 && blocks[1].at == 0 && blocks[2].at == 0 && blocks[3].at == 20, "else where they say");
    is_uint(7, hp_blocks_largest(blocks, 4), "the largest block");
}

static void
test_checksum(void)
{
    int right = 1;
    for (int k = 0; k < 2000; k++) {
        int size = 2 + (int)tap_pick(MOST - 2), one = (int)tap_pick((uint64_t)size), other = (one + 1) % size;
        draw(size, 0);
        counts[one]++;
        uint32_t before = hp_blocks_checksum(counts, size);
        counts[one]--;
        right &= case_ok(before != hp_blocks_checksum(counts, size), "one count of %d", size);
        counts[other]++;
        right &= case_ok(before != hp_blocks_checksum(counts, size), "an element that changed its owner, of %d", size);
    }
    ok(right, "other counts, another checksum, also with the same sum");
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    tap_seed();
    test_fill();
    test_overlap();
    test_checksum();
    return tap_failures() != 0;
}
