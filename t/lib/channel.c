/* SPDX-License-Identifier: MIT */
/*
 * The belt proven without sockets: n ranks' channels in this process on links that hold nothing or little and on
 * devices that finish when they like (t/sim). Thousands of seeds: a window above S always finishes with right and
 * identical results, a window of S or less locks; slots and gather buffers are not used again too early; a failing
 * device never delivers.
 */
#include "base/dtype.h"
#include "t/sim/hosts.h"
#include "t/sim/sim.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <string.h>

static int
has_root(int kind)
{
    return kind == HP_BROADCAST || kind == HP_REDUCE || kind == HP_GATHER || kind == HP_SCATTER;
}

static hp_call
call_of(int kind, int size, uint64_t count)
{
    static const hoop_dtype dtypes[] = {HOOP_INT32, HOOP_FLOAT32, HOOP_BOOL, HOOP_INT16, HOOP_FLOAT32, HOOP_UINT16};
    hp_call call = {.kind = (uint8_t)kind, .dtype = (uint8_t)dtypes[tap_pick(6)], .root = -1, .count = count};
    if (hp_kind_reduces(kind)) {
        hoop_op op = hp_op_at((int)tap_pick(HP_OPS));
        call.op = (uint8_t)(hp_op_applies(op, (hoop_dtype)call.dtype) ? op : HOOP_MIN);
    }
    call.ordered = hp_kind_reduces(kind) && call.dtype == HOOP_FLOAT32 && tap_pick(2);
    if (hp_kind_reduces(kind) && kind != HP_REDUCE && call.dtype == HOOP_FLOAT32 &&
        (call.op == HOOP_SUM || call.op == HOOP_AVG) && tap_pick(2))
        call.wire = tap_pick(2) ? HOOP_WIRE_BFLOAT16 : HOOP_WIRE_E4M3;
    if (has_root(kind))
        call.root = (int32_t)tap_pick((uint64_t)size);
    if (hp_kind_has_counts(kind))
        call.root = (int32_t)tap_pick(UINT32_MAX); /* the counts: t/sim/blocks.h */
    if (kind == HP_BARRIER)
        call = (hp_call){.kind = HP_BARRIER, .dtype = HOOP_UINT8, .root = -1};
    return call;
}

/* Levels with every shape that they have. */
static void
set_levels(sim_ring *o)
{
    o->hosts = sim_hosts(o->size, tap_pick(2) ? 1 + tap_pick((uint64_t)o->size) : 0, NULL);
    o->stage_bytes = (uint32_t)o->size * 64 * (8 + (uint32_t)tap_pick(20));
    o->one_bytes = tap_pick(2) ? 0 : 200;
    o->whole_bytes = tap_pick(2) ? 0 : 600;
    o->block_bytes = tap_pick(2) ? 64 : 700;
}

/* Slots of 64 to 127 bytes, so that small vectors already go round in several loops. */
static sim_ring
ring_of(int size, uint32_t slices, uint32_t window)
{
    sim_ring o = {.size = size, .slices = slices, .window = window, .stripes = 1, .faulty = -1, .absent = -1};
    o.seed = tap_random();
    o.slice_bytes = 64 + 4 * (uint32_t)tap_pick(16);
    o.stage_bytes = 3 * 64 * (uint32_t)size;
    o.spread_bytes = tap_pick(2) ? 64 * (uint32_t)size : 0;
    o.halves_bytes = tap_pick(2) ? 2048 : 0; /* from 8 ranks on */
    o.device.addressable = (int)tap_pick(2);
    o.device.early = (int)tap_pick(2);
    o.net.held = tap_pick(2) ? 0 : 1 + (uint32_t)tap_pick(tap_pick(2) ? 16 : 600);
    o.net.on_ask = (int)tap_pick(2);
    if (tap_pick(2))
        set_levels(&o);
    return o;
}

static void
add(sim_ring *o, hp_call call)
{
    o->in_place[o->ops] = (int)tap_pick(2);
    o->call[o->ops++] = call;
    if (call.wire == HOOP_WIRE_E4M3 && o->stage_bytes < 4200) { /* room for a block, and one or two for each part */
        o->slice_bytes += 128;
        o->stage_bytes = 64 * 65 + (65 * 3 * (uint32_t)o->size + 256) * (1 + (uint32_t)tap_pick(2));
    }
}

static uint64_t
some_count(int size)
{
    switch (tap_pick(6)) {
    case 0: return tap_pick(3);
    case 1: return (uint64_t)size + tap_pick(3) - 1;
    case 2: return 100 + tap_pick(200);
    default: return 1 + tap_pick(60);
    }
}

static int
ends(const sim_ring *o, sim_end wanted)
{
    static const char *const names[] = {"right", "locked", "wrong"};
    sim_rank_end at[SIM_RANKS_MAX];
    char why[300], call[100];
    sim_end got = sim_ring_run(o, at, why, sizeof(why));
    if (got == wanted)
        return 1;
    diag("seed %ju, %d ranks, S %u, W %u, slot %u, spread %u, held %u, %s, %s, %d stripes: %s instead of %s: %s",
         (uintmax_t)o->seed, o->size, o->slices, o->window, o->slice_bytes, o->spread_bytes, o->net.held,
         o->device.addressable ? "direct" : "through slots", o->device.early ? "early" : "late", o->stripes, names[got],
         names[wanted], why);
    for (int i = 0; i < o->ops; i++)
        diag("  %s%s", hp_call_print(&o->call[i], call, sizeof(call)), o->in_place[i] ? ", in place" : "");
    return 0;
}

/* --- the window --- */

static void
test_window_above_s(void)
{
    for (int kind = HP_ALLREDUCE; kind < HP_KINDS; kind++) {
        int right = 1, runs = 0;
        for (int size = 2; size <= 9; size++)
            for (int k = 0; k < 40 && right; k++, runs++) {
                uint32_t slices = 1 + (uint32_t)tap_pick(5);
                sim_ring o = ring_of(size, slices, slices + 1 + (k % 2 ? (uint32_t)tap_pick(8) : 0));
                add(&o, call_of(kind, size, some_count(size)));
                right = ends(&o, SIM_RIGHT);
            }
        ok(right, "%s: every window above S finishes, right and identical (%d seeds)", hp_kind_name(kind), runs);
    }
}

/* All ranks' windows are full of sends before the first receive is posted, and the links hold nothing. */
static void
test_window_up_to_s(void)
{
    int locks = 1, opens = 1, runs = 0;
    for (int size = 2; size <= 9; size++)
        for (uint32_t slices = 1; slices <= 5; slices++)
            for (uint32_t window = 1; window <= slices; window++, runs++) {
                sim_ring o = ring_of(size, slices, window);
                o.net.held = 0;
                o.spread_bytes = o.halves_bytes = 0;
                o.hosts = NULL;
                o.slice_bytes = 64;
                hp_call call = call_of(HP_ALLREDUCE, size, 0);
                call.ordered = call.wire = 0; /* these have a window of their own */
                call.count = o.slice_bytes / hp_dtype_size((hoop_dtype)call.dtype) * (uint64_t)size * slices;
                add(&o, call);
                locks &= ends(&o, SIM_LOCKED);
                o.window = slices + 1;
                opens &= ends(&o, SIM_RIGHT);
            }
    ok(locks, "every window up to S locks on links that hold nothing (%d rings)", runs);
    ok(opens, "and S + 1 finishes the same ring");
}

/* --- operations back to back --- */

static void
test_back_to_back(void)
{
    int right = 1, runs = 0;
    for (int k = 0; k < 600 && right; k++, runs++) {
        int size = 2 + k % 8, kind = HP_ALLREDUCE + k % 3;
        sim_ring o = ring_of(size, 1 + (uint32_t)tap_pick(4), 5 + (uint32_t)tap_pick(4));
        for (int i = 0; i < 5; i++)
            add(&o, call_of(kind, size, some_count(size)));
        right = ends(&o, SIM_RIGHT);
    }
    ok(right, "five operations of a kind back to back (%d seeds)", runs);
}

static void
test_mixed(void)
{
    int right = 1, runs = 0;
    for (int k = 0; k < 1200 && right; k++, runs++) {
        int size = 2 + k % 9;
        uint32_t slices = 1 + (uint32_t)tap_pick(5);
        sim_ring o = ring_of(size, slices, slices + 1 + (uint32_t)tap_pick(20));
        for (int i = 0; i < SIM_OPS_MAX; i++)
            add(&o, call_of(HP_ALLREDUCE + (int)tap_pick(HP_KINDS - HP_ALLREDUCE), size, some_count(size)));
        o.stripes = 1 + (int)tap_pick(3);
        right = ends(&o, SIM_RIGHT);
    }
    ok(right, "eight operations of mixed kinds on one to three stripes (%d seeds)", runs);
}

/* Commands that end between two questions of one round. */
static void
test_news(void)
{
    int right = 1, runs = 0;
    for (int k = 0; k < 600 && right; k++, runs++) {
        int size = 2 + k % 8;
        uint32_t slices = 1 + (uint32_t)tap_pick(5);
        sim_ring o = ring_of(size, slices, slices + 1 + (uint32_t)tap_pick(20));
        o.device.on_ask = 1;
        o.net.on_ask = 0;
        for (int i = 0; i < 4; i++)
            add(&o, call_of(HP_ALLREDUCE + (int)tap_pick(HP_KINDS - HP_ALLREDUCE), size, some_count(size)));
        right = ends(&o, SIM_RIGHT);
    }
    ok(right, "a belt stops only when it has used all that its device has told (%d seeds)", runs);
}

/* More small operations than there are gather buffers, and a window that could hold them all. */
static void
test_stages(void)
{
    int right = 1, runs = 0;
    for (int k = 0; k < 600 && right; k++, runs++) {
        int size = 2 + k % 8;
        sim_ring o = ring_of(size, 1, k % 2 ? 64 : 2 + (uint32_t)tap_pick(30));
        o.spread_bytes = 64 * (uint32_t)size;
        for (int i = 0; i < SIM_OPS_MAX; i++)
            add(&o, call_of(tap_pick(4) ? HP_ALLREDUCE : HP_BARRIER, size, 1 + tap_pick(16)));
        right = ends(&o, SIM_RIGHT);
    }
    ok(right, "eight spreads over four gather buffers (%d seeds)", runs);
}

/* Tensors of every size, from none to more than a slice; slices in pieces, and slices through slots. */
static void
test_fused(void)
{
    int right = 1, runs = 0;
    for (int k = 0; k < 1200 && right; k++, runs++) {
        int size = 2 + k % 8;
        sim_ring o = ring_of(size, 1 + (uint32_t)tap_pick(4), 6);
        o.stripes = 1 + (int)tap_pick(3);
        for (int i = 0; i < 1 + k % 3; i++) {
            add(&o, call_of(HP_ALLREDUCE, size, tap_pick(2) ? some_count(size) : 60 * (uint64_t)size));
            o.call[i].fused = 1;
        }
        right = ends(&o, SIM_RIGHT);
    }
    ok(right, "fused tensors, back to back: commands and pieces end at their seams (%d seeds)", runs);
}

/* Maps of hosts, even and uneven; blocks that follow each other; every shape, back to back with others. */
static void
test_levels(void)
{
    static const int kinds[] = {HP_ALLREDUCE,      HP_ALLREDUCE, HP_ALLREDUCE, HP_REDUCE_SCATTER,
                                HP_REDUCE_SCATTER, HP_ALLGATHER, HP_ALLGATHER, HP_BARRIER};
    int right = 1, runs = 0;
    for (int k = 0; k < 300 && right; k++, runs++) {
        int size = k % 100 ? 2 + k % 15 : 34 + 6 * (int)tap_pick(6);
        sim_ring o = ring_of(size, 1 + (uint32_t)tap_pick(4), 5 + (uint32_t)tap_pick(4));
        set_levels(&o);
        if (k % 100 == 0) { /* many pieces go to one rank; bytes one by one would take minutes */
            o.hosts = sim_hosts(size, 2, NULL);
            o.net.held = 600;
        }
        for (int i = 0; i < 3; i++) {
            uint64_t count = tap_pick(2) ? some_count(size) : tap_pick(800);
            add(&o, call_of(kinds[tap_pick(8)], size, k % 100 ? count : count % 80));
            o.call[i].ordered = o.call[i].wire = 0;
            o.call[i].fused = o.call[i].kind == HP_ALLREDUCE && tap_pick(4) == 0;
        }
        right = ends(&o, SIM_RIGHT);
    }
    ok(right, "levels over even and uneven hosts (%d seeds)", runs);
}

/* One rank's plan, to know that every shape was there. */
static hp_plan
plan_of(const sim_ring *o)
{
    hp_plan_options options = {.slice_bytes = o->slice_bytes, .slices = o->slices, .channels = 1};
    int order[SIM_RANKS_MAX];
    hp_plan plan;
    options.stage_bytes = o->stage_bytes;
    options.spread_bytes = o->spread_bytes;
    options.halves_bytes = o->halves_bytes;
    options.hosts = o->hosts;
    options.levels = HP_LEVELS_ALL;
    for (int i = 0; i < o->size; i++)
        order[i] = i;
    options.one_bytes = o->one_bytes;
    options.whole_bytes = o->whole_bytes;
    options.block_bytes = o->block_bytes;
    hp_plan_make(&plan, &o->call[0], NULL, order, o->size, &options, 0, 1);
    return plan;
}

/* One block and several, whole and shared out, each often enough. */
static int
saw_all(int seen[2][2])
{
    return seen[0][0] > 10 && seen[0][1] > 10 && seen[1][0] > 10 && seen[1][1] > 10;
}

/* ... whose sums travel narrower between hosts: in one block and in several, shared out and not. */
static void
test_narrow_levels(void)
{
    int right = 1, runs = 0, scattered = 0, seen[2][2] = {{0}};
    for (int k = 0; right && k < (saw_all(seen) && scattered > 3 ? 240 : 5000); k++, runs++) {
        int size = 3 + k % 10, kind = tap_pick(2) ? HP_ALLREDUCE : HP_REDUCE_SCATTER;
        sim_ring o = ring_of(size, 1 + (uint32_t)tap_pick(4), 5 + (uint32_t)tap_pick(4));
        set_levels(&o);
        o.spread_bytes = 0;
        o.slice_bytes = k % 3 ? 256 * (1 + (uint32_t)tap_pick(4)) : 8192;
        o.stage_bytes = 1024 * (uint32_t)(size * (k % 3 ? 4 + (int)tap_pick(8) : 48) + 16);
        o.block_bytes = k % 3 ? o.block_bytes : 1 << 20;
        for (int i = 0; i < 3; i++) {
            add(&o, call_of(kind, size, 1 + tap_pick(k % 3 ? 3000 : 1500)));
            o.call[i].dtype = HOOP_FLOAT32;
            o.call[i].op = tap_pick(2) ? HOOP_SUM : HOOP_AVG;
            o.call[i].ordered = tap_pick(2) ? HP_ORDER_HOST : HP_ORDER_ANY;
            o.call[i].wire = tap_pick(2) ? HOOP_WIRE_BFLOAT16 : HOOP_WIRE_E4M3;
            o.call[i].fused = kind == HP_ALLREDUCE && tap_pick(4) == 0;
        }
        hp_plan plan = plan_of(&o);
        if (plan.algorithm == HP_ALG_LEVELS && plan.narrow && plan.kind == HP_ALLREDUCE)
            seen[plan.loops > 1][plan.split]++;
        if (plan.algorithm == HP_ALG_LEVELS && plan.narrow && plan.kind == HP_REDUCE_SCATTER)
            scattered++;
        right = ends(&o, SIM_RIGHT);
    }
    ok(right, "levels between whose hosts sums travel narrower (%d seeds)", runs);
    ok(saw_all(seen), "... one block and several, whole and shared out: %d, %d, %d, %d", seen[0][0], seen[0][1],
       seen[1][0], seen[1][1]);
    ok(scattered > 3, "... and reduce_scatters: %d", scattered);
}

/* A mean of a 16- or 8-bit float: of one to nine ranks, of 13 and of 64, in every shape that reduces. */
static sim_ring
mean_of(hoop_dtype dtype, int size, int k)
{
    static const int kinds[] = {HP_ALLREDUCE,      HP_ALLREDUCE, HP_ALLREDUCE,
                                HP_REDUCE_SCATTER, HP_REDUCE,    HP_REDUCE_SCATTERV};
    int kind = kinds[k % 6];
    uint64_t n = (uint64_t)size;
    const uint64_t counts[] = {0, 1, n - 1, n, n + 1, 13, 61, 64, 257, 16 * n};
    uint32_t slices = 1 + (uint32_t)tap_pick(3);
    sim_ring o = ring_of(size, slices, slices + 1 + (uint32_t)tap_pick(4));
    o.spread_bytes = k % 6 == 0 ? 128 * (uint32_t)size : 0;
    o.halves_bytes = k % 6 == 1 ? 1 << 16 : 0;
    add(&o, call_of(kind, size, counts[tap_pick(size < 16 ? 10 : 8)]));
    o.call[0].dtype = (uint8_t)dtype;
    o.call[0].wire = 0;
    o.call[0].op = HOOP_AVG;
    o.call[0].fused = kind == HP_ALLREDUCE && k % 2;
    return o;
}

static void
test_means(void)
{
    static const hoop_dtype types[] = {HOOP_FLOAT16, HOOP_BFLOAT16, HOOP_FLOAT8E4M3, HOOP_FLOAT8E5M2};
    int seen[HP_ALG_SPREAD + 1] = {0};
    for (size_t t = 0; t < sizeof(types) / sizeof(*types); t++) {
        int right = 1, runs = 0;
        for (int k = 0; k < 11 * 40 && right; k++, runs++) {
            int size = k % 11 < 9 ? 1 + k % 11 : k % 11 == 9 ? 13 : k % 4 ? 16 : 64;
            sim_ring o = mean_of(types[t], size, k / 11);
            seen[plan_of(&o).algorithm]++;
            right = ends(&o, SIM_RIGHT);
        }
        ok(right, "%s: means are within their bound, and identical (%d seeds)", hp_dtype_name(types[t]), runs);
    }
    ok(seen[HP_ALG_RING] > 100 && seen[HP_ALG_CHAIN_IN] > 100 && seen[HP_ALG_HALVES] > 20 &&
           seen[HP_ALG_DOUBLING] > 20 && seen[HP_ALG_SPREAD] > 50 && seen[HP_ALG_LOCAL] > 10 &&
           seen[HP_ALG_LEVELS] > 50,
       "... on rings, chains, halves, doublings, spreads and levels: %d, %d, %d, %d, %d, %d", seen[HP_ALG_RING],
       seen[HP_ALG_CHAIN_IN], seen[HP_ALG_HALVES], seen[HP_ALG_DOUBLING], seen[HP_ALG_SPREAD], seen[HP_ALG_LEVELS]);
}

static void
test_alone(void)
{
    int right = 1;
    for (int kind = HP_ALLREDUCE; kind < HP_KINDS; kind++) {
        sim_ring o = ring_of(1, 2, 3);
        add(&o, call_of(kind, 1, 100));
        add(&o, call_of(kind, 1, 0));
        right &= ends(&o, SIM_RIGHT);
    }
    ok(right, "a ring of one");
}

/* --- failures --- */

static void
test_refused_job(void)
{
    int right = 1, failures = 0;
    for (int k = 0; k < 300 && right; k++) {
        sim_rank_end at[SIM_RANKS_MAX];
        char why[300];
        int size = 2 + k % 8;
        sim_ring o = ring_of(size, 2, 4);
        o.faulty = (int)tap_pick((uint64_t)size);
        o.device.refuse = 1 + tap_pick(12);
        for (int i = 0; i < 3; i++)
            add(&o, call_of(HP_ALLREDUCE + k % 2, size, some_count(size)));
        sim_end end = sim_ring_run(&o, at, why, sizeof(why));
        right = end != SIM_WRONG && (end == SIM_LOCKED) == (at[o.faulty].command_error == HOOP_ERR_CUDA);
        if (!right)
            diag("seed %ju: end %d, %s", (uintmax_t)o.seed, end, why);
        for (int r = 0; r < size && right; r++)
            right = r == o.faulty ||
                    case_int(HOOP_SUCCESS, at[r].command_error,
                             "run %ju, the commands of rank %d fail: error of rank %d", (uintmax_t)o.seed, o.faulty, r);
        failures += end == SIM_LOCKED;
    }
    ok(right, "a refused command sets its rank's command_error, and no wrong result is ever delivered");
    ok(failures > 100, "and it was refused in time often enough to show (%d times)", failures);
}

static void
test_stuck_job(void)
{
    int right = 1, stuck = 0;
    for (int k = 0; k < 300 && right; k++) {
        sim_rank_end at[SIM_RANKS_MAX];
        char why[300];
        int size = 2 + k % 8;
        sim_ring o = ring_of(size, 3, 5);
        o.faulty = (int)tap_pick((uint64_t)size);
        o.device.stick = 1 + tap_pick(12);
        for (int i = 0; i < 3; i++)
            add(&o, call_of(HP_ALLREDUCE + (int)tap_pick(HP_KINDS - HP_ALLREDUCE), size, some_count(size)));
        sim_end end = sim_ring_run(&o, at, why, sizeof(why));
        right = end != SIM_WRONG && (end == SIM_RIGHT || at[o.faulty].finished < o.ops);
        if (!right)
            diag("seed %ju: end %d, %s", (uintmax_t)o.seed, end, why);
        stuck += end == SIM_LOCKED;
    }
    ok(right && stuck > 50, "a command that never ends: what was delivered before is right, the rest never is");
}

/* All reports point upstream along the ring, and so at the rank that is missing. */
static void
test_absent_rank(void)
{
    int right = 1;
    for (int size = 2; size <= 9; size++) {
        sim_rank_end at[SIM_RANKS_MAX];
        char why[300];
        int named = 0;
        sim_ring o = ring_of(size, 2, 4);
        o.spread_bytes = o.halves_bytes = 0;
        o.hosts = NULL;
        o.net.held = 100000;
        o.absent = (int)tap_pick((uint64_t)size);
        o.absent_from = 1;
        add(&o, call_of(HP_ALLREDUCE, size, 50));
        add(&o, call_of(HP_ALLREDUCE, size, 50));
        o.call[1].wire = 0;
        right &= sim_ring_run(&o, at, why, sizeof(why)) == SIM_LOCKED;
        for (int r = 0; r < size; r++) {
            right &= at[r].finished == 1 &&
                     (r == o.absent ? at[r].oldest.awaited.rank == -1 : at[r].oldest.awaited.rank >= 0);
            named += at[r].oldest.awaited.rank == o.absent && at[r].oldest.awaited.what == HP_WAIT_PEER;
        }
        right &=
            o.call[1].ordered ? named == size - 1 : named == 1; /* by rank, and narrower, each waits for all others */
        for (int r = 0; r < size && !right; r++)
            diag("%d ranks without %d: rank %d finished %d, waits for %d%s at step %ju", size, o.absent, r,
                 at[r].finished, at[r].oldest.awaited.rank, at[r].oldest.awaited.what == HP_WAIT_LINK ? " to take" : "",
                 (uintmax_t)at[r].oldest.step);
        if (!right)
            break;
    }
    ok(right, "a rank that does not come: the others finish what it took part in, its neighbour waits for it by name");
}

/*
 * In the order of hosts, whatever the ring's order is: host by host, small floats in float32 in between. Uneven hosts, one
 * rank on some; a single host, or hosts of one rank each, are in rank order.
 */
static void
test_host_order(void)
{
    static const hoop_dtype dtypes[] = {HOOP_FLOAT32, HOOP_FLOAT16, HOOP_BFLOAT16, HOOP_FLOAT8E4M3, HOOP_FLOAT8E5M2};
    int right = 1, runs = 0, over = 0, wide[2][2] = {{0}};
    for (int k = 0; right && k < (saw_all(wide) ? 240 : 5000); k++, runs++) {
        int size = 2 + k % 12;
        sim_ring o = ring_of(size, 1 + (uint32_t)tap_pick(4), 5 + (uint32_t)tap_pick(4));
        set_levels(&o);
        o.stage_bytes = 1024 * (uint32_t)(size * (k % 3 ? 8 + (int)tap_pick(8) : 64) + 16);
        o.slice_bytes = k % 3 ? 64 * (4 + (uint32_t)tap_pick(16)) : 8192;
        o.block_bytes = k % 3 ? o.block_bytes : 1 << 20;
        for (int i = 0; i < 3; i++) {
            int kind = tap_pick(3) ? HP_ALLREDUCE : HP_REDUCE_SCATTER;
            add(&o, call_of(kind, size, tap_pick(2) ? some_count(size) : tap_pick(1000)));
            o.call[i].dtype = (uint8_t)dtypes[tap_pick(5)];
            o.call[i].op = (uint8_t)(tap_pick(2) ? HOOP_SUM : tap_pick(2) ? HOOP_AVG : HOOP_MAX);
            o.call[i].ordered = HP_ORDER_HOST;
            o.call[i].wire = 0;
            o.call[i].fused = kind == HP_ALLREDUCE && tap_pick(4) == 0;
        }
        hp_plan plan = plan_of(&o);
        over += plan.algorithm == HP_ALG_LEVELS;
        wide[plan.loops > 1][plan.split] += plan.wide && plan.kind == HP_ALLREDUCE;
        right = ends(&o, SIM_RIGHT);
    }
    ok(right, "in the order of hosts (%d seeds)", runs);
    ok(over > 0 && saw_all(wide),
       "... %d over levels; small floats in one block and several, whole and shared out: %d, %d, %d, %d", over,
       wide[0][0], wide[0][1], wide[1][0], wide[1][1]);
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    tap_seed();
    test_window_above_s();
    test_window_up_to_s();
    test_back_to_back();
    test_mixed();
    test_news();
    test_stages();
    test_fused();
    test_levels();
    test_narrow_levels();
    test_host_order();
    test_means();
    test_alone();
    test_refused_job();
    test_stuck_job();
    test_absent_rank();
    return tap_failures() != 0;
}
