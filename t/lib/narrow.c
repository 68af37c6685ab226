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

int
main(void)
{
    plan_lazy();
    test_narrow();
    return tap_failures() != 0;
}
