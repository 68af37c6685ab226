/* SPDX-License-Identifier: MIT */
/*
 * Properties of the pure arithmetic of lib/plan: cuts cover, are ordered, balanced and aligned; channels share a vector
 * without gaps; shapes follow the table of the header; no slice exceeds a slot. What the steps then do is schedule.c's.
 */
#include "lib/plan.h"

#include "base/dtype.h"
#include "t/sim/blocks.h"
#include "t/tap/tap.h"

static const uint64_t totals[] = {0,
                                  1,
                                  2,
                                  3,
                                  15,
                                  16,
                                  17,
                                  97,
                                  1000,
                                  65537,
                                  (1 << 20) + 3,
                                  (UINT64_C(1) << 32) + 7,
                                  (UINT64_C(1) << 40) + 3,
                                  (UINT64_C(1) << 43) - 1,
                                  UINT64_C(1) << 60};
enum { TOTALS = sizeof(totals) / sizeof(*totals) };

/* Begin, end, order, grain and balance of one cut at part k. */
static int
cut_is_right(uint64_t total, uint64_t parts, uint64_t k, uint32_t grain)
{
    uint64_t at = hp_cut(total, parts, k, grain), next = hp_cut(total, parts, k + 1, grain);
    uint64_t least = total / parts, size = next - at;
    if (next < at || next > total || (at % grain != 0 && at != total))
        return 0;
    if ((k == 0 && at != 0) || (k + 1 == parts && next != total))
        return 0;
    return size <= least + grain && (next == total || size + grain >= least);
}

static void
test_cut(void)
{
    static const uint32_t grains[] = {1, 8, 16, 64};
    int right = 1;
    for (int t = 0; t < TOTALS; t++)
        for (int g = 0; g < 4; g++)
            for (int i = 0; i < 400 && right; i++) {
                uint64_t parts = i < 40 ? (uint64_t)i + 1 : 1 + tap_pick(i < 200 ? 1000 : 1000000);
                uint64_t k = i % 3 == 0 ? 0 : i % 3 == 1 ? parts - 1 : tap_pick(parts);
                right = cut_is_right(totals[t], parts, k, grains[g]);
                if (!right)
                    diag("total %ju parts %ju part %ju grain %u", (uintmax_t)totals[t], (uintmax_t)parts, (uintmax_t)k,
                         grains[g]);
            }
    ok(right, "cuts begin at 0, end at the total, ascend, fall on grains and are balanced to within one");
}

static void
test_cut_exactly(void)
{
    is_uint(4, hp_cut(10, 3, 1, 1), "10 in 3: 4, 3, 3");
    is_uint(7, hp_cut(10, 3, 2, 1), "10 in 3: 4, 3, 3");
    is_uint(1, hp_cut(1, 5, 1, 1), "1 in 5: the first part has it");
    is_uint(1, hp_cut(1, 5, 4, 1), "1 in 5: the last part is empty");
    is_uint(32, hp_cut(50, 2, 1, 16), "50 in 2 by 16: 32 and 18");
    is_uint(50, hp_cut(50, 8, 7, 16), "50 in 8 by 16: parts 4 to 7 are empty");
    is_uint(0, hp_cut(0, 7, 3, 8), "nothing cut is nothing");
}

static const hp_plan_options standard = {
    .slice_bytes = 256 << 10, .slices = 4, .channels = 1, .stage_bytes = 256 << 10, .spread_bytes = 224 << 10};

static const int order[] = {0}; /* the plan looks ranks up only until it has found the root */

static hp_block blocks[1000]; /* of the last call that has counts */

static hp_call
call_of(hp_kind kind, hoop_dtype dtype, uint64_t count)
{
    int root = hp_kind_has_counts(kind) ? (int)tap_pick(INT32_MAX) : hp_kind_is_rooted(kind) ? 0 : -1;
    return (hp_call){.kind = (uint8_t)kind, .dtype = (uint8_t)dtype, .root = root, .count = count};
}

/* The plan, and the elements that it cuts: the largest block's where there are counts. */
static uint64_t
make(hp_plan *plan, const hp_call *call, int size, const hp_plan_options *o, uint32_t channel, uint32_t channels)
{
    uint64_t line = 64 / hp_dtype_size((hoop_dtype)call->dtype), most = 0;
    if (hp_kind_has_counts(call->kind))
        sim_blocks(blocks, call, 0, size);
    hp_plan_make(plan, call, blocks, order, size, o, channel, channels);
    for (int r = 0; r < size && plan->blocks; r++)
        most = blocks[r].count > most ? blocks[r].count : most;
    return plan->blocks ? (most + line - 1) / line * line : call->count;
}

static hp_algorithm
algorithm_of(hp_kind kind, hoop_dtype dtype, uint64_t count, int size, const hp_plan_options *options)
{
    hp_call call = call_of(kind, dtype, count);
    hp_plan plan;
    make(&plan, &call, size, options, 0, 1);
    return plan.algorithm;
}

static void
test_algorithms(void)
{
    static const hp_algorithm large[HP_KINDS] = {
        [HP_ALLREDUCE] = HP_ALG_RING,      [HP_REDUCE_SCATTER] = HP_ALG_RING, [HP_ALLGATHER] = HP_ALG_RING,
        [HP_BROADCAST] = HP_ALG_CHAIN_OUT, [HP_REDUCE] = HP_ALG_CHAIN_IN,     [HP_GATHER] = HP_ALG_GATHER,
        [HP_SCATTER] = HP_ALG_SCATTER,     [HP_ALLTOALL] = HP_ALG_PAIRWISE,   [HP_BARRIER] = HP_ALG_SPREAD,
        [HP_ALLGATHERV] = HP_ALG_RING,     [HP_REDUCE_SCATTERV] = HP_ALG_RING};
    for (int kind = HP_ALLREDUCE; kind < HP_KINDS; kind++) {
        uint64_t count = kind == HP_BARRIER ? 0 : 1 << 20;
        is_string(hp_algorithm_name(large[kind]),
                  hp_algorithm_name(algorithm_of((hp_kind)kind, HOOP_FLOAT32, count, 5, &standard)), "a long %s",
                  hp_kind_name(kind));
        is_string("local", hp_algorithm_name(algorithm_of((hp_kind)kind, HOOP_FLOAT32, count, 1, &standard)),
                  "%s alone", hp_kind_name(kind));
    }
}

/* hosts x ranks each, with one more rank on the last host. */
static const hp_host_map *
map_of(int hosts, int ranks, int more)
{
    static int first[100];
    static hp_host_map map = {.first = first};
    uint64_t host[99];
    int ranks_at[99];
    int size = hosts * ranks + more;
    for (int p = 0; p < size; p++) {
        host[p] = (uint64_t)(p / ranks < hosts ? p / ranks : hosts - 1) + 7;
        ranks_at[p] = p;
    }
    hp_host_map_fill(&map, host, ranks_at, size);
    return &map;
}

static void
test_hosts(void)
{
    const hp_host_map *map = map_of(3, 2, 1);
    hp_seat seat = hp_host_map_seat(map, 6);
    ok(map->count == 3 && map->least == 2 && map->most == 3, "three hosts: %d, of %d to %d ranks", map->count,
       map->least, map->most);
    ok(seat.host == 2 && seat.local == 2 && seat.ranks == 3, "position 6 is the last one of the last host");
    seat = hp_host_map_seat(map, 2);
    ok(seat.host == 1 && seat.local == 0 && seat.ranks == 2, "position 2 is the first one of the second host");
}

/* Owners of parts and S, or 0 0 if it does not go over the levels. */
static void
shape_is(int owners, int split, uint32_t slices, hp_kind kind, uint64_t count, const hp_plan_options *o,
         const char *text)
{
    hp_call call = call_of(kind, HOOP_FLOAT32, count);
    hp_plan plan;
    hp_plan_make(&plan, &call, NULL, order, o->hosts->first[o->hosts->count], o, 0, 1);
    int levels = plan.algorithm == HP_ALG_LEVELS;
    is_int(owners, levels ? plan.owners : 0, "%s: owners", text);
    is_int(split, levels ? plan.split : 0, "%s: shares", text);
    is_uint(slices, levels ? plan.slices : 0, "%s: S", text);
}

static void
test_levels(void)
{
    hp_plan_options o = standard;
    o.levels = HP_LEVELS_ALL;
    o.one_bytes = 4096;
    o.whole_bytes = 16384;
    o.block_bytes = 65536;
    o.stage_bytes = 8 << 20;
    o.hosts = map_of(4, 2, 0);
    shape_is(1, 0, 2 + 3, HP_BARRIER, 0, &o, "a barrier on 4 x 2");
    shape_is(1, 0, 2 + 3, HP_ALLREDUCE, 1024, &o, "4 KiB on 4 x 2");
    shape_is(2, 0, 2 + 3, HP_ALLREDUCE, 1025, &o, "more on 4 x 2");
    shape_is(2, 1, 2 + 6, HP_ALLREDUCE, 4097, &o, "more than 16 KiB on 4 x 2");
    shape_is(0, 0, 0, HP_BROADCAST, 4097, &o, "a broadcast on 4 x 2");
    o.hosts = map_of(2, 4, 1);
    shape_is(4, 0, 8 + 1, HP_ALLREDUCE, 1 << 20, &o, "4 MiB on 4 and 5 ranks");
    o.levels = HP_LEVELS_NONE;
    shape_is(0, 0, 0, HP_ALLREDUCE, 1, &o, "levels = 0");
    o.levels = HP_LEVELS_LONG;
    o.hosts = map_of(4, 2, 0);
    shape_is(0, 0, 0, HP_BARRIER, 0, &o, "a barrier that doubles");
    shape_is(0, 0, 0, HP_ALLREDUCE, o.spread_bytes / 12, &o, "what three doublings receive");
    shape_is(2, 1, 2 + 6, HP_ALLREDUCE, o.spread_bytes / 12 + 1, &o, "what is longer");
    o.channels = 2;
    shape_is(0, 0, 0, HP_ALLREDUCE, 1 << 20, &o, "4 MiB on two channels");
    o.channels = 1;
    o.hosts = map_of(2, 1, 1);
    shape_is(0, 0, 0, HP_ALLREDUCE, 1 << 20, &o, "4 MiB where a host has one rank");
    o.levels = HP_LEVELS_ALL;
    o.hosts = map_of(2, 4, 1);
    o.stage_bytes = 3000;
    shape_is(0, 0, 0, HP_ALLREDUCE, 1 << 20, &o, "a stage without room");
    o.hosts = map_of(8, 1, 0);
    shape_is(0, 0, 0, HP_BARRIER, 0, &o, "a rank a host");
    o.hosts = map_of(1, 8, 0);
    shape_is(0, 0, 0, HP_BARRIER, 0, &o, "one host");
    o.hosts = map_of(2, 33, 0);
    shape_is(0, 0, 0, HP_BARRIER, 0, &o, "too many partners");
}

static void
test_names(void)
{
    is_string("local", hp_algorithm_name(HP_ALG_LOCAL), "the first shape's name");
    is_string("pairs", hp_algorithm_name(HP_ALG_PAIRWISE), "an alltoall's");
    is_string("halves", hp_algorithm_name(HP_ALG_HALVES), "halving and doubling");
    is_string("levels", hp_algorithm_name(HP_ALG_LEVELS), "over hosts");
    is_string("doubling", hp_algorithm_name(HP_ALG_DOUBLING), "doubling alone");
    is_string("spread", hp_algorithm_name(HP_ALG_SPREAD), "the last shape's name");
}

static void
test_spread_limits(void)
{
    hp_plan_options o = standard;
    is_int(HP_ALG_SPREAD, algorithm_of(HP_ALLREDUCE, HOOP_FLOAT32, 5213, 12, &o), "eleven times 20 KiB on 12 ranks");
    is_int(HP_ALG_RING, algorithm_of(HP_ALLREDUCE, HOOP_FLOAT32, 5214, 12, &o), "one element more takes the ring");
    is_int(HP_ALG_SPREAD, algorithm_of(HP_ALLREDUCE, HOOP_FLOAT32, 7168, 9, &o), "9 ranks: 8 x 7168 x 4 are as many");
    is_int(HP_ALG_RING, algorithm_of(HP_ALLREDUCE, HOOP_FLOAT32, 7169, 9, &o), "8 x 7169 x 4 are more");
    o.stage_bytes = 192 << 10;
    is_int(HP_ALG_SPREAD, algorithm_of(HP_ALLREDUCE, HOOP_FLOAT32, 4096, 12, &o), "twelve times 16 KiB fit the stage");
    is_int(HP_ALG_RING, algorithm_of(HP_ALLREDUCE, HOOP_FLOAT32, 4097, 12, &o), "one element more does not");
    is_int(HP_ALG_SPREAD, algorithm_of(HP_ALLREDUCE, HOOP_FLOAT64, 0, 9, &o), "an empty allreduce is a spread");
    is_int(HP_ALG_CHAIN_OUT, algorithm_of(HP_BROADCAST, HOOP_FLOAT32, 1, 8, &o), "only allreduces spread");
    o.spread_bytes = 0;
    is_int(HP_ALG_RING, algorithm_of(HP_ALLREDUCE, HOOP_INT8, 1, 2, &o), "spread_bytes = 0 turns it off");
    is_int(HP_ALG_SPREAD, algorithm_of(HP_BARRIER, HOOP_UINT8, 0, 3, &o), "but not for the barrier");
}

static void
test_doubling_limits(void)
{
    hp_plan_options o = standard;
    o.stage_bytes = 1 << 20;
    is_int(HP_ALG_DOUBLING, algorithm_of(HP_ALLREDUCE, HOOP_FLOAT32, 19114, 8, &o), "three times 75 KiB on 8 ranks");
    is_int(HP_ALG_RING, algorithm_of(HP_ALLREDUCE, HOOP_FLOAT32, 19115, 8, &o), "one element more takes the ring");
    is_int(HP_ALG_DOUBLING, algorithm_of(HP_ALLREDUCE, HOOP_FLOAT32, 1, 4, &o), "one element on 4 ranks");
    is_int(HP_ALG_DOUBLING, algorithm_of(HP_ALLREDUCE, HOOP_FLOAT32, 0, 2, &o), "nothing on 2");
    is_int(HP_ALG_SPREAD, algorithm_of(HP_ALLREDUCE, HOOP_FLOAT32, 10000, 6, &o),
           "6 ranks have no partners to double with");
    is_int(HP_ALG_CHAIN_OUT, algorithm_of(HP_BROADCAST, HOOP_FLOAT32, 8192, 8, &o), "only allreduces double");
    o.exchange_bytes = 64 << 10;
    is_int(HP_ALG_DOUBLING, algorithm_of(HP_ALLREDUCE, HOOP_FLOAT32, 16384, 8, &o), "64 KiB, if links are repaired");
    is_int(HP_ALG_RING, algorithm_of(HP_ALLREDUCE, HOOP_FLOAT32, 16385, 8, &o), "but no longer vector");
    o.spread_bytes = 512 << 10;
    is_int(HP_ALG_RING, algorithm_of(HP_ALLREDUCE, HOOP_FLOAT32, 16385, 4, &o), "which is not spread either");
    is_int(HP_ALG_SPREAD, algorithm_of(HP_ALLREDUCE, HOOP_FLOAT32, 16385, 5, &o), "but with 5 ranks");
    o.spread_bytes = standard.spread_bytes;
    o.exchange_bytes = 0;
    o.stage_bytes = 128 << 10;
    is_int(HP_ALG_DOUBLING, algorithm_of(HP_ALLREDUCE, HOOP_FLOAT32, 8192, 8, &o), "four times 32 KiB fit the stage");
    is_int(HP_ALG_RING, algorithm_of(HP_ALLREDUCE, HOOP_FLOAT32, 8193, 8, &o), "one element more does not");
    o.spread_bytes = 0;
    is_int(HP_ALG_RING, algorithm_of(HP_ALLREDUCE, HOOP_INT8, 1, 2, &o), "spread_bytes = 0 turns it off too");
    is_int(HP_ALG_DOUBLING, algorithm_of(HP_BARRIER, HOOP_UINT8, 0, 2, &o), "but not for the barrier");
}

static int
exchanges(uint64_t count, int size)
{
    hp_call call = call_of(HP_ALLREDUCE, HOOP_FLOAT32, count);
    hp_plan plan;
    hp_plan_options o = standard;
    o.stage_bytes = 1 << 20;
    make(&plan, &call, size, &o, 0, 1);
    return plan.algorithm == HP_ALG_DOUBLING && plan.exchanges;
}

static void
test_exchanges(void)
{
    ok(exchanges(12288, 2) && !exchanges(12289, 2), "two ranks exchange up to 48 KiB over one connection");
    ok(exchanges(1, 4) && exchanges(19114, 8), "more ranks all that they double");
    ok(!exchanges(19115, 8) && !exchanges(1, 6), "and nothing else");
}

static void
test_halves_limits(void)
{
    hp_plan_options o = standard;
    o.spread_bytes = 0;
    o.halves_bytes = 64 << 10;
    is_int(HP_ALG_HALVES, algorithm_of(HP_ALLREDUCE, HOOP_FLOAT32, 16384, 8, &o), "64 KiB on 8 ranks halve and double");
    is_int(HP_ALG_RING, algorithm_of(HP_ALLREDUCE, HOOP_FLOAT32, 16385, 8, &o), "one element more takes the ring");
    is_int(HP_ALG_RING, algorithm_of(HP_ALLREDUCE, HOOP_FLOAT32, 16384, 7, &o), "and so do 7 ranks");
    o.stage_bytes = 128 << 10;
    is_int(HP_ALG_RING, algorithm_of(HP_ALLREDUCE, HOOP_FLOAT32, 16384, 8, &o), "three areas must fit the stage");
    o.spread_bytes = 129 << 10;
    is_int(HP_ALG_SPREAD, algorithm_of(HP_ALLREDUCE, HOOP_FLOAT32, 2000, 9, &o), "what can spread does");
    is_int(HP_ALG_CHAIN_IN, algorithm_of(HP_REDUCE, HOOP_FLOAT32, 4096, 8, &o), "only allreduces halve");
}

static void
test_rounds(void)
{
    int right = hp_plan_rounds(1) == 0;
    for (int n = 2; n <= 5000; n++)
        right &= case_ok(1 << hp_plan_rounds(n) >= n && 1 << (hp_plan_rounds(n) - 1) < n, "%d ranks: %d rounds", n,
                         (int)hp_plan_rounds(n));
    ok(right, "rounds are the logarithm, rounded up");
}

static void
test_channels(void)
{
    hp_plan_options o = standard;
    hp_call call = call_of(HP_ALLREDUCE, HOOP_INT8, 64 << 20);
    o.channels = 3;
    is_uint(3, hp_plan_channels(&call, 4, &o), "a long operation uses all channels");
    is_uint(1, hp_plan_channels(&call, 1, &o), "a ring of one uses one");
    call.count = 2 << 20;
    is_uint(2, hp_plan_channels(&call, 4, &o), "each channel has a share worth having");
    call.count = 100;
    is_uint(1, hp_plan_channels(&call, 4, &o), "a small operation uses one");
    call.count = 0;
    is_uint(1, hp_plan_channels(&call, 4, &o), "an empty one too");
    call = call_of(HP_BROADCAST, HOOP_FLOAT64, UINT64_C(1) << 50);
    is_uint(3, hp_plan_channels(&call, 4, &o), "2^53 bytes do not overflow");
}

/* Shares are neighbours, begin on cache lines and add up; plans agree in everything that is not the share. */
static int
shares_cover(const hp_call *call, int size, const hp_plan_options *o, uint32_t channels)
{
    uint64_t next = 0, line = 64 / hp_dtype_size((hoop_dtype)call->dtype), all = 0;
    for (uint32_t c = 0; c < channels; c++) {
        hp_plan plan;
        all = make(&plan, call, size, o, c, channels);
        if (plan.begin != next || (plan.begin % line != 0 && plan.begin != all))
            return 0;
        next = plan.begin + plan.count;
    }
    return next == all;
}

/* The largest slice that the plan's own cuts can produce, against the slot. */
static int
slices_fit(const hp_plan *plan, const hp_plan_options *o)
{
    uint64_t slot = o->slice_bytes / plan->elem, count = hp_cut(plan->count, plan->loops, 1, plan->grain);
    if (plan->algorithm == HP_ALG_LOCAL || plan->algorithm == HP_ALG_SPREAD)
        return 1;
    if (plan->algorithm == HP_ALG_DOUBLING)
        return (hp_plan_rounds(plan->size) + 1) * plan->count * plan->elem <= o->stage_bytes;
    if (plan->algorithm == HP_ALG_HALVES)
        return plan->part * (uint64_t)plan->size >= plan->count &&
               (3 * (uint64_t)plan->size - 1) * plan->part * plan->elem <= o->stage_bytes;
    if (plan->algorithm == HP_ALG_RING && !plan->block)
        count = hp_cut(count, (uint64_t)plan->size, 1, plan->grain);
    count = hp_cut(count, plan->slices, 1, plan->grain);
    return count <= slot && plan->slices <= o->slices && plan->loops > 0 && plan->grain > 0;
}

/* No loop more than the slots demand: with one less some slice would not fit. */
static int
loops_are_needed(const hp_plan *plan, const hp_plan_options *o)
{
    uint64_t slot = o->slice_bytes / plan->elem / plan->grain * plan->grain, parts = plan->slices;
    if (plan->algorithm == HP_ALG_RING && !plan->block)
        parts *= (uint64_t)plan->size;
    return plan->loops == 1 || (plan->loops - 1) * parts * slot < plan->count;
}

static int
plan_is_sound(const hp_call *call, int size, const hp_plan_options *o, uint32_t channels)
{
    for (uint32_t c = 0; c < channels; c++) {
        hp_plan plan;
        make(&plan, call, size, o, c, channels);
        int chain = plan.algorithm == HP_ALG_CHAIN_IN || plan.algorithm == HP_ALG_CHAIN_OUT;
        uint64_t steps = chain ? plan.loops + plan.rows - 1 : plan.loops * plan.rows * plan.slices;
        if (!slices_fit(&plan, o) || !loops_are_needed(&plan, o) || plan.steps != steps || plan.steps == 0)
            return 0;
        if (size > 1 && plan.steps <= plan.slices) /* the announcement needs step S */
            return 0;
    }
    return shares_cover(call, size, o, channels);
}

/* A shorter block is shared out as the largest is: its shares cover it, and none is longer than the largest one's. */
static void
test_shares(void)
{
    int right = 1;
    for (int k = 0; k < 20000 && right; k++) {
        hoop_dtype dtype = k % 2 ? HOOP_INT8 : HOOP_FLOAT64;
        hp_call call = call_of(HP_ALLGATHERV, dtype, tap_pick(k % 3 ? 3000 : 300));
        uint32_t channels = 1 + (uint32_t)tap_pick(8);
        uint64_t next[5] = {0};
        for (uint32_t c = 0; c < channels; c++) {
            hp_plan plan;
            make(&plan, &call, 5, &standard, c, channels);
            for (int r = 0; r < 5; r++) {
                uint64_t begin, count = hp_plan_share(&plan, blocks[r].count, &begin);
                right &= case_ok(begin == next[r] && count <= plan.count, "%s, share %u of %u", hp_dtype_name(dtype), c,
                                 channels);
                next[r] += count;
            }
        }
        for (int r = 0; r < 5; r++)
            right &= case_ok(next[r] == blocks[r].count, "%u shares of %ju", channels, (uintmax_t)blocks[r].count);
    }
    ok(right, "channels share every block, and no share of a shorter block is the longer one");
}

/* Blocks of one length are cut as those of the kind that has no counts. */
static void
test_equal_counts(void)
{
    static const uint64_t counts[] = {16, 1024, 65536, 1 << 20, (1 << 20) + 16};
    int right = 1;
    for (int i = 0; i < 5; i++) {
        hp_call even = call_of(HP_ALLGATHER, HOOP_FLOAT32, counts[i]);
        hp_call uneven = {.kind = HP_ALLGATHERV, .dtype = HOOP_FLOAT32, .root = 7, .count = 4 * counts[i]};
        hp_plan a, b;
        for (int r = 0; r < 4; r++)
            blocks[r] = (hp_block){counts[i] * (uint64_t)r, counts[i]};
        hp_plan_make(&a, &even, NULL, order, 4, &standard, 0, 1);
        hp_plan_make(&b, &uneven, blocks, order, 4, &standard, 0, 1);
        right &= case_ok(a.steps == b.steps && a.loops == b.loops && a.slices == b.slices && a.grain == b.grain &&
                             a.count == b.count && a.block == b.block,
                         "four blocks of %ju", (uintmax_t)counts[i]);
        right &= case_ok(hp_plan_channels(&even, 4, &standard) == hp_plan_channels(&uneven, 4, &standard),
                         "channels for four blocks of %ju", (uintmax_t)counts[i]);
    }
    ok(right, "equal counts are cut as without counts");
}

/* What the settings leave open is filled in; what they say stays, and S < W always. */
static void
test_depth(void)
{
    static const uint32_t in[][2] = {{0, 0}, {0, 3}, {0, 64}, {3, 0}, {32, 0}, {5, 6}, {0, 2}};
    static const uint32_t out[][2][2] = {{{2, 3}, {4, 8}},     {{2, 3}, {2, 3}}, {{2, 64}, {4, 64}}, {{3, 4}, {3, 6}},
                                         {{32, 33}, {32, 64}}, {{5, 6}, {5, 6}}, {{1, 2}, {1, 2}}};
    int right = 1;
    for (size_t i = 0; i < sizeof(in) / sizeof(in[0]); i++)
        for (int far = 0; far < 2; far++) {
            hp_plan_options o = {.slices = in[i][0]};
            uint32_t window = in[i][1];
            hp_plan_depth(&o, &window, !far);
            right &= case_ok(o.slices == out[i][far][0] && window == out[i][far][1],
                             "slices %u, window %u, %s: wanted %u and %u, saw %u and %u", in[i][0], in[i][1],
                             far ? "between hosts" : "on one host", out[i][far][0], out[i][far][1], o.slices, window);
        }
    ok(right, "slices and window that are left open fit each other and the path");
}

static uint32_t
slice_bytes(uint32_t set, int one_host, int in_memory)
{
    hp_plan_options o = {.slice_bytes = set, .in_memory = in_memory};
    uint32_t window = 0;
    hp_plan_depth(&o, &window, one_host);
    return o.slice_bytes;
}

static void
test_slice_bytes(void)
{
    is_int(128 << 10, slice_bytes(0, 1, 1), "slices in memory are small");
    ok(slice_bytes(0, 1, 0) == 512 << 10 && slice_bytes(0, 0, 0) == 512 << 10, "over TCP, and between hosts, large");
    ok(slice_bytes(100, 1, 1) == 4096 && slice_bytes(8191, 0, 0) == 4096 && slice_bytes(1 << 20, 1, 1) == 1 << 20,
       "one that is set is of whole pages");
}

static uint32_t
stage_bytes(uint32_t set, int one_host, int in_memory)
{
    hp_plan_options o = {.stage_bytes = set, .in_memory = in_memory};
    uint32_t window = 0;
    hp_plan_depth(&o, &window, one_host);
    return o.stage_bytes;
}

/* Bytes of the parts of an allreduce in rank order of four ranks, and how many blocks there are. */
static void
parts_are(uint64_t bytes, int one_host, uint64_t part, uint64_t loops)
{
    static const int ranks[] = {0, 1, 2, 3};
    hp_plan_options o = {.channels = 1, .in_memory = one_host};
    hp_call call = {.kind = HP_ALLREDUCE, .dtype = HOOP_FLOAT32, .op = HOOP_SUM, .root = -1, .ordered = 1};
    uint32_t window = 0;
    hp_plan plan;
    hp_plan_depth(&o, &window, one_host);
    call.count = bytes / 4;
    hp_plan_make(&plan, &call, NULL, ranks, 4, &o, 0, 1);
    ok(plan.part * 4 == part && plan.loops == loops, "%ju bytes, %s: parts of %ju bytes, %ju blocks", (uintmax_t)bytes,
       one_host ? "one host" : "hosts", (uintmax_t)plan.part * 4, (uintmax_t)plan.loops);
}

static void
test_stage_bytes(void)
{
    ok(stage_bytes(0, 1, 1) == 768 << 10 && stage_bytes(0, 1, 0) == 1 << 20 && stage_bytes(0, 0, 0) == 8 << 20,
       "stages fit the path");
    ok(stage_bytes(100, 0, 0) == 4096 && stage_bytes(1 << 20, 1, 1) == 1 << 20, "one that is set stays, from 4096 on");
    parts_are(64 << 10, 0, 32 << 10, 1);
    parts_are(1 << 20, 0, 64 << 10, 4);
    parts_are(64 << 20, 0, 256 << 10, 64);
    parts_are(64 << 20, 1, 78592, 214);
}

/* Up to where fewer steps pay: bench/RESULTS.md. */
static void
test_spread(void)
{
    static const int sizes[] = {2, 3, 4, 7, 8, 9, 12, 16, 64};
    static const int most[] = {384, 192, 256, 448, 512, 192, 192, 192, 192}; /* KiB */
    int right = 1;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        right &= case_int(most[i] << 10, hp_plan_spread(-1, 1, sizes[i]), "%d ranks on one host", sizes[i]);
        right &= case_int(32 << 10, hp_plan_spread(-1, 0, sizes[i]), "%d ranks on several hosts", sizes[i]);
        right &= case_int(0, hp_plan_spread(0, 1, sizes[i]), "%d ranks, set to 0", sizes[i]);
    }
    ok(right, "the bytes that short arrays may bring into a rank: fit for path and ranks, or as set");
}

static void
test_plans(void)
{
    static const hoop_dtype dtypes[] = {HOOP_INT8, HOOP_FLOAT16, HOOP_FLOAT32, HOOP_FLOAT64};
    static const uint32_t slots[] = {4096, 65536, 256 << 10, 300000};
    static const int sizes[] = {1, 2, 3, 5, 8, 17, 64, 257, 1000};
    for (int kind = HP_ALLREDUCE; kind < HP_KINDS; kind++) {
        int sound = 1;
        for (int i = 0; i < 4 * 4 * 9 * TOTALS * 3 && sound; i++) {
            hp_plan_options o = standard;
            int size = sizes[i / 16 % 9];
            uint64_t count = kind == HP_BARRIER ? 0 : totals[i / 144 % TOTALS];
            hp_call call = call_of((hp_kind)kind, dtypes[i % 4], count);
            o.slice_bytes = slots[i / 4 % 4];
            o.slices = 1 + (uint32_t)tap_pick(9);
            o.spread_bytes = i % 2 ? 32 << 10 : 0;
            o.halves_bytes = i % 3 ? 256 << 10 : 0;
            sound = plan_is_sound(&call, size, &o, 1 + (uint32_t)(i / (144 * TOTALS)));
            if (!sound)
                diag("%d ranks, count %ju, dtype %d, slot %u, S %u", size, (uintmax_t)count, (int)call.dtype,
                     o.slice_bytes, o.slices);
        }
        ok(sound, "%s: slices fit their slots, no loop too many, shares cover the vector", hp_kind_name(kind));
    }
}

/* The plan knows the root by its place, so that no step has to look for it. */
static void
test_root(void)
{
    static const int mixed[] = {3, 0, 4, 2, 1};
    hp_call call = call_of(HP_REDUCE, HOOP_INT32, 100);
    hp_plan plan;
    call.root = 2;
    hp_plan_make(&plan, &call, NULL, mixed, 5, &standard, 0, 1);
    is_int(3, plan.root, "the root's position on the ring");
    call = call_of(HP_ALLREDUCE, HOOP_INT32, 100);
    call.root = 0x7fffffff; /* a fused group's fingerprint is kept there */
    hp_plan_make(&plan, &call, NULL, mixed, 5, &standard, 0, 1);
    is_int(-1, plan.root, "none where none applies");
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    tap_seed();
    test_cut_exactly();
    test_cut();
    test_algorithms();
    test_names();
    test_hosts();
    test_levels();
    test_spread_limits();
    test_doubling_limits();
    test_exchanges();
    test_halves_limits();
    test_rounds();
    test_channels();
    test_depth();
    test_slice_bytes();
    test_stage_bytes();
    test_spread();
    test_plans();
    test_root();
    test_shares();
    test_equal_counts();
    return tap_failures() != 0;
}
