/* SPDX-License-Identifier: MIT */
/* Which sums of float32 travel in a narrower type, by their plans. */
#include "base/dtype.h"
#include "lib/plan.h"
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

int
main(void)
{
    plan_lazy();
    test_narrow();
    test_levels();
    return tap_failures() != 0;
}
