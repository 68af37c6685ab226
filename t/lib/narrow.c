/* SPDX-License-Identifier: MIT */
/* Which sums travel in a narrower type than float32, and which as float32 in the order of hosts, by their plans. */
#include "base/dtype.h"
#include "lib/plan.h"
#include "t/sim/hosts.h"
#include "t/tap/tap.h"

static const hp_plan_options standard = {
    .slice_bytes = 256 << 10, .slices = 4, .channels = 1, .stage_bytes = 256 << 10, .spread_bytes = 224 << 10};

static const char *
narrow_in(hp_kind kind, hoop_wire wire, uint64_t count, const hp_plan_options *o)
{
    static const int ranks[] = {0, 1, 2, 3};
    hp_call call = {.kind = (uint8_t)kind, .dtype = HOOP_FLOAT32, .root = -1, .count = count};
    hp_plan plan;
    call.wire = (uint8_t)wire;
    hp_plan_make(&plan, &call, NULL, ranks, 4, o, 0, 1);
    return !plan.narrow ? "float32" : plan.wire == HP_SCALED ? "e4m3" : hp_dtype_name(plan.wire);
}

/* What is long travels narrower, unless all ranks share memory. */
static void
test_narrow(void)
{
    const hoop_wire bfloat16 = HOOP_WIRE_BFLOAT16, e4m3 = HOOP_WIRE_E4M3;
    hp_plan_options o = standard;
    is_string("bfloat16", narrow_in(HP_ALLREDUCE, bfloat16, 57345, &o), "a long allreduce");
    is_string("e4m3", narrow_in(HP_REDUCE_SCATTER, e4m3, 57345, &o), "... and a reduce_scatter");
    is_string("float32", narrow_in(HP_ALLREDUCE, bfloat16, 57344, &o), "a short one");
    o.stage_bytes = 4096;
    is_string("float32", narrow_in(HP_ALLREDUCE, e4m3, 57345, &o), "no room for blocks");
    o = standard;
    o.in_memory = 1;
    is_string("float32", narrow_in(HP_ALLREDUCE, bfloat16, 57345, &o), "a long one in memory");
    is_string("float32", narrow_in(HP_REDUCE_SCATTER, e4m3, 57345, &o), "... and a reduce_scatter");
}

/* Four ranks on two hosts. */
static void
test_levels(void)
{
    int two[] = {0, 2, 4};
    const hp_host_map hosts = {.count = 2, .least = 2, .most = 2, .first = two};
    static const int ranks[] = {0, 1, 2, 3};
    hp_plan_options o = standard;
    hp_call call = {.kind = HP_ALLREDUCE, .dtype = HOOP_FLOAT32, .root = -1, .count = 1 << 20, .wire = HOOP_WIRE_E4M3};
    hp_plan plan;
    o.hosts = &hosts;
    o.levels = HP_LEVELS_LONG;
    o.block_bytes = 128 << 10;
    o.stage_bytes = 8 << 20;
    hp_plan_make(&plan, &call, NULL, ranks, 4, &o, 0, 1);
    ok(plan.algorithm == HP_ALG_LEVELS && plan.narrow && !plan.ordered, "e4m3 over two levels");
    ok(plan.packed % 64 == 0 && plan.part % HP_SCALED_BLOCK == 0 && plan.grain == HP_SCALED_BLOCK, "in whole blocks");
    ok(plan.packed + hp_plan_wire_bytes(&plan, plan.sums) + plan.part * 4 <= o.stage_bytes, "which fit into a stage");
    o.stage_bytes = 8 << 10;
    is_string("e4m3", narrow_in(HP_ALLREDUCE, HOOP_WIRE_E4M3, 57345, &o), "a small stage");
    hp_plan_make(&plan, &call, NULL, ranks, 4, &o, 0, 1);
    ok(plan.algorithm == HP_ALG_ALLPAIRS, "... takes all pairs");
    o.stage_bytes = 8 << 20;
    o.levels = HP_LEVELS_NONE;
    hp_plan_make(&plan, &call, NULL, ranks, 4, &o, 0, 1);
    ok(plan.algorithm == HP_ALG_ALLPAIRS && plan.narrow && plan.ordered, "... and so without levels");
    o.levels = HP_LEVELS_LONG;
    call.kind = HP_REDUCE_SCATTER;
    hp_plan_make(&plan, &call, NULL, ranks, 4, &o, 0, 1);
    ok(plan.algorithm == HP_ALG_LEVELS && plan.narrow && !plan.ordered, "e4m3 of a reduce_scatter over two levels");
    ok(plan.packed % 64 == 0 && plan.share % HP_SCALED_BLOCK == 0, "... whose shares are whole blocks");
}

/*
 * In the order of hosts the size decides nothing: an allreduce of any size goes over the levels, or of none. Small stages, too;
 * what a plan needs is in the stage, and no step has more than a slice.
 */
static void
test_by_host(void)
{
    static const hoop_dtype dtypes[] = {HOOP_FLOAT32, HOOP_FLOAT64, HOOP_BFLOAT16, HOOP_FLOAT8E4M3};
    static const uint64_t counts[] = {0, 1, 63, 300, 5000, 70000, 1 << 20};
    int ranks[HP_ORDERED_MOST], bad = 0, over = 0, flat = 0;
    for (int p = 0; p < HP_ORDERED_MOST; p++)
        ranks[p] = p;
    for (int k = 0; k < 4000 && !bad; k++) {
        int size = 2 + (int)tap_pick(HP_ORDERED_MOST - 1), levels = -1;
        const hp_host_map *hosts = sim_hosts(size, tap_pick(2) ? 1 + tap_pick(8) : 0, NULL);
        hp_plan_options o = {.channels = 1, .hosts = hosts, .levels = (hp_levels)tap_pick(3)};
        hp_call call = {.kind = HP_ALLREDUCE, .dtype = (uint8_t)dtypes[tap_pick(4)], .op = HOOP_SUM, .root = -1};
        uint32_t window = 0;
        if (hosts->count < 2 || hosts->most < 2)
            continue;
        o.stage_bytes = tap_pick(2) ? 4096 + 64 * (uint32_t)tap_pick(500) : 0;
        hp_plan_depth(&o, &window, 0);
        call.ordered = HP_ORDER_HOST;
        for (int c = 0; c < 7; c++) {
            hp_plan plan;
            call.count = counts[c];
            hp_plan_make(&plan, &call, NULL, ranks, size, &o, 0, 1);
            int is = plan.algorithm == HP_ALG_LEVELS;
            uint64_t blocks = plan.loops == 1 ? 1 : 3, wire = hp_plan_wire_bytes(&plan, 1), each = plan.elem;
            each = plan.wide ? wire : each;
            bad += levels >= 0 && is != levels;
            bad += is && plan.packed + blocks * plan.packed_area * wire > o.stage_bytes;
            bad += is && plan.loops > 1 && plan.part * each > o.slice_bytes;
            levels = is;
        }
        if (bad)
            diag("%d ranks on %d hosts, %s, stage of %u bytes", size, hosts->count,
                 hp_dtype_name((hoop_dtype)call.dtype), o.stage_bytes);
        over += levels == 1;
        flat += levels == 0;
    }
    ok(!bad && over > 1000 && flat > 20, "in the order of hosts the size decides nothing (%d over levels, %d not)",
       over, flat);
}

/* Where shares would take too many steps, long arrays go round the ring, and those in the order of hosts in rank order. */
static void
test_many_hosts(void)
{
    int ranks[HP_ORDERED_MOST];
    hp_plan_options o = standard;
    hp_call call = {.kind = HP_ALLREDUCE, .dtype = HOOP_FLOAT32, .op = HOOP_SUM, .root = -1, .count = 1 << 20};
    hp_plan plan;
    for (int p = 0; p < HP_ORDERED_MOST; p++)
        ranks[p] = p;
    o.hosts = sim_hosts(HP_ORDERED_MOST, 2, NULL);
    o.levels = HP_LEVELS_LONG;
    o.stage_bytes = 8 << 20;
    hp_plan_make(&plan, &call, NULL, ranks, HP_ORDERED_MOST, &o, 0, 1);
    ok(plan.algorithm == HP_ALG_RING, "64 ranks on 32 hosts: a long sum goes round the ring");
    call.ordered = HP_ORDER_HOST;
    for (call.count = 1; call.count <= 1 << 20; call.count <<= 20) {
        hp_plan_make(&plan, &call, NULL, ranks, HP_ORDERED_MOST, &o, 0, 1);
        ok(plan.algorithm != HP_ALG_LEVELS && plan.ordered, "... in the order of hosts all are in rank order");
    }
}

int
main(void)
{
    plan_lazy();
    tap_seed();
    test_narrow();
    test_levels();
    test_by_host();
    test_many_hosts();
    return tap_failures() != 0;
}
