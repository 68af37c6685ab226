/* SPDX-License-Identifier: MIT */
/*
 * What plan, schedule and place amount to together: every collective executed on symbols (t/sim/symbol.h) by all ranks,
 * in place and out of place, straight from user memory and through slots, under any legal interleaving. Each
 * contribution must arrive exactly once, and nothing may be overwritten before its last use. Then the table of place.c.
 */
#include "t/sim/hosts.h"
#include "t/sim/symbol.h"
#include "t/tap/tap.h"

#include <malloc.h>
#include <stdio.h>

enum { SIZE_MAX_HERE = 1000 };

static int order[SIZE_MAX_HERE];

static int
has_root(int kind)
{
    return kind == HP_BROADCAST || kind == HP_REDUCE || kind == HP_GATHER || kind == HP_SCATTER;
}

/* Tiny slots, so that a few dozen elements make several loops of several slices. An int64 symbol a place. */
static sym_case
make(int kind, int size, uint64_t count)
{
    uint32_t slices = 1 + (uint32_t)tap_pick(4);
    sym_case c = {.size = size, .order = order, .channels = 1};
    tap_shuffle(order, size);
    c.call = (hp_call){.kind = (uint8_t)kind, .dtype = HOOP_INT64, .root = -1, .count = count};
    if (hp_kind_has_counts(kind))
        c.call.root = (int32_t)tap_pick(UINT32_MAX); /* the counts: t/sim/blocks.h */
    if (has_root(kind))
        c.call.root = (int)tap_pick((uint64_t)size);
    c.call.ordered = hp_kind_reduces(kind) && size <= HP_ORDERED_MOST && tap_pick(2);
    c.options = (hp_plan_options){.slice_bytes = 8 * (1 + (uint32_t)tap_pick(6)), .slices = slices, .channels = 1};
    c.options.stage_bytes = 3 * 8 * (uint32_t)size * 16;
    c.options.halves_bytes = tap_pick(2) ? 8 * 1024 : 0;
    c.options.spread_bytes = tap_pick(2) ? 64 * (uint32_t)size : 0;
    c.window = slices + 1 + (uint32_t)tap_pick(3);
    c.place.direct = (int)tap_pick(2);
    c.place.in_place = (int)tap_pick(2);
    return c;
}

static int
holds(const sym_case *c)
{
    char why[200], call[100];
    if (sym_run(c, why, sizeof(why)))
        return 1;
    diag("%s on %d ranks, slot %u, S %u, W %u, wire %u%s%s%s, interleaving %ju: %s",
         hp_call_print(&c->call, call, sizeof(call)), c->size, c->options.slice_bytes / 8, c->options.slices, c->window,
         c->wire, c->place.direct ? ", direct" : "", c->place.in_place ? ", in place" : "",
         c->early_commands ? ", early commands" : "", (uintmax_t)c->seed, why);
    return 0;
}

/* Every size to 17 and every count around it, in one order. */
static void
test_promises(void)
{
    for (int kind = HP_ALLREDUCE; kind < HP_KINDS; kind++) {
        int right = 1, runs = 0;
        for (int n = 1; n <= 17; n++) {
            const uint64_t counts[] = {0, 1, (uint64_t)n - 1, (uint64_t)n, (uint64_t)n + 1, 31, 97, 120 - (uint64_t)n};
            for (int k = 0; k < 8 * 4 && right; k++, runs++) {
                sym_case c = make(kind, n, kind == HP_BARRIER ? 0 : counts[k / 4]);
                c.place.direct = k & 1;
                c.place.in_place = k >> 1 & 1;
                right = holds(&c);
            }
        }
        ok(right, "%s: all ranks end with what it promises (%d runs)", hp_kind_name(kind), runs);
    }
}

/* A ring of one copies, out of place; only bools that are reduced become 0 or 1, in place too. */
static void
test_alone(void)
{
    for (int kind = HP_ALLREDUCE; kind < HP_BARRIER; kind++)
        for (int k = 0; k < 4; k++) {
            hp_place_options place = {.direct = 1, .in_place = k & 1};
            sym_case c = make(kind, 1, 40);
            c.call.dtype = k & 2 ? HOOP_BOOL : HOOP_UINT8;
            hp_plan plan;
            hp_plan_make(&plan, &c.call, NULL, order, 1, &c.options, 0, 1);
            hp_step step = hp_schedule_at(&plan, order, 0, 0);
            hp_placement p = hp_place(&plan, &step, &place);
            int reduced = hp_kind_reduces(kind) && c.call.dtype == HOOP_BOOL;
            ok(p.tasks == (reduced || !place.in_place) && (p.tasks == 0 || p.task[0].sources == 1 + reduced),
               "%s of %s, alone, %s", hp_kind_name(kind), k & 2 ? "bool" : "uint8", k & 1 ? "in place" : "apart");
        }
}

static void
test_interleavings(void)
{
    for (int kind = HP_ALLREDUCE; kind < HP_KINDS; kind++) {
        int right = 1;
        for (int k = 0; k < 500 && right; k++) {
            sym_case c = make(kind, 2 + k % 8, kind == HP_BARRIER ? 0 : tap_pick(40));
            c.seed = tap_random() | 1;
            c.wire = k % 3 == 0 ? 0 : k % 3 == 1 ? 1 + (uint32_t)tap_pick(4) : 1000;
            c.early_commands = (int)tap_pick(2);
            right = holds(&c);
        }
        ok(right, "%s: under 500 interleavings nothing is overwritten before its last use", hp_kind_name(kind));
    }
}

static void
test_halves(void)
{
    int right = 1, halves = 0;
    for (int k = 0; k < 400 && right; k++) {
        int n = 8 + k % 26;
        hp_plan plan;
        sym_case c = make(HP_ALLREDUCE, n, tap_pick(16 * (uint64_t)n + 1));
        c.options.halves_bytes = 16 * 1024;
        c.options.spread_bytes = 0;
        c.call.ordered = 0;
        c.seed = k % 2 ? tap_random() | 1 : 0;
        c.wire = (uint32_t)tap_pick(3) * 50;
        c.early_commands = (int)tap_pick(2);
        hp_plan_make(&plan, &c.call, NULL, order, n, &c.options, 0, 1);
        halves += plan.algorithm == HP_ALG_HALVES;
        right = holds(&c);
    }
    ok(right, "halving and doubling on 8 to 33 ranks");
    ok(halves > 350, "and it was halving and doubling (%d times)", halves);
}

/* In place the last sum may not go to recvbuf while the vector is still being sent from there. */
static void
test_doubling(void)
{
    int right = 1, doublings = 0;
    for (int k = 0; k < 600 && right; k++) {
        int n = 2 << k % 5;
        hp_plan plan;
        sym_case c = make(HP_ALLREDUCE, n, 1024 / (hp_plan_rounds(n) + 1) - tap_pick(40));
        c.options.spread_bytes = 8 * 1024;
        c.place.direct = k & 1;
        c.place.in_place = k >> 1 & 1;
        c.options.halves_bytes = 0;
        c.call.ordered = 0;
        c.options.stage_bytes = 8 * 1024;
        c.seed = k % 3 ? tap_random() | 1 : 0;
        c.wire = (uint32_t)tap_pick(3) * 50;
        c.early_commands = (int)tap_pick(2);
        hp_plan_make(&plan, &c.call, NULL, order, n, &c.options, 0, 1);
        doublings += plan.algorithm == HP_ALG_DOUBLING;
        right = holds(&c);
    }
    ok(right, "doubling on 2 to 32 ranks");
    ok(doublings > 500, "and it was doubling (%d times)", doublings);
}

/* Of parts, in a stage: see schedule.c. */
static uint32_t
rooms_of(int kind, int size)
{
    uint32_t n = (uint32_t)size;
    return kind == HP_ALLREDUCE || kind == HP_REDUCE ? 2 * n + 1 : 3 * n;
}

/*
 * Sums in rank order, whatever the cut and the interleaving: many blocks, each room of the stage used again and again. narrow:
 * elements of four bytes travel in 1: two, 2: one, with a scale for each block.
 */
static void
test_ordered(int narrow)
{
    static const int kinds[] = {HP_ALLREDUCE, HP_REDUCE_SCATTER, HP_REDUCE_SCATTERV, HP_REDUCE};
    static const char *const names[] = {"in rank order", "in a narrower type", "in blocks with a scale"};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds) - (narrow > 0); i++) {
        int right = 1;
        for (int k = 0; k < 500 && right; k++) {
            sym_case c = make(kinds[i], 2 + k % (k % 100 == 99 ? 20 : 8), (uint64_t)narrow + tap_pick(120));
            c.call.ordered = 1;
            uint32_t rooms = rooms_of(kinds[i], c.size),
                     most = 1 + (uint32_t)tap_pick(3); /* of a room: elements, or blocks */
            c.options.stage_bytes = 64 + 8 * (rooms + 1) * most;
            if (narrow) {
                c.call.dtype = HOOP_FLOAT32;
                c.call.wire = narrow == 1 ? HOOP_WIRE_BFLOAT16 : HOOP_WIRE_E4M3;
                c.options.stage_bytes = 64 + (2 * rooms + 4) * most;
            }
            if (narrow == 2) { /* vectors of many blocks */
                c.call.count = 1 + tap_pick(kinds[i] == HP_REDUCE_SCATTER ? 600 : 3000);
                c.options.stage_bytes = 64 * 65 + (65 * rooms + 256) * most;
                c.options.slice_bytes = 65 * (1 + (uint32_t)tap_pick(4));
            }
            c.options.spread_bytes = 0;
            c.seed = k % 4 ? tap_random() | 1 : 0;
            c.wire = (uint32_t)tap_pick(3) * 50;
            c.early_commands = (int)tap_pick(2);
            right = holds(&c);
        }
        ok(right, "%s: %s, block after block", hp_kind_name(kinds[i]), names[narrow]);
    }
}

/* An operation over hosts of any number of ranks each. form: as in forms[] of test_levels. */
static sym_case
over_hosts(int kind, int form)
{
    int even = tap_pick(3) ? 2 + (int)tap_pick(3) : 0,
        size = even ? even * (2 + (int)tap_pick(3)) : 3 + (int)tap_pick(8);
    sym_case c = make(kind, size, kind == HP_BARRIER ? 0 : tap_pick(form ? 400 : 200));
    hp_plan plan;
    c.options.hosts = sim_hosts(size, (uint64_t)even, order);
    c.options.levels = HP_LEVELS_ALL;
    c.options.one_bytes = tap_pick(2) ? 0 : 200;
    c.options.whole_bytes = tap_pick(2) ? 0 : 600;
    c.options.block_bytes = tap_pick(2) ? 64 : 700;
    c.options.spread_bytes = 0;
    c.options.slice_bytes = 64 * (1 + (uint32_t)tap_pick(4));
    c.options.stage_bytes = (uint32_t)size * 64 * (8 + (uint32_t)tap_pick(20));
    c.call.ordered = hp_kind_reduces(kind) && (form == 3 || tap_pick(2)) ? HP_ORDER_HOST : HP_ORDER_ANY;
    c.seed = tap_pick(4) ? tap_random() | 1 : 0;
    c.wire = (uint32_t)tap_pick(3) * 50;
    c.early_commands = (int)tap_pick(2);
    if (form > 0) {
        c.call.dtype = form == 3 ? HOOP_BFLOAT16 : HOOP_FLOAT32;
        c.call.wire = form == 1 ? HOOP_WIRE_BFLOAT16 : form == 2 ? HOOP_WIRE_E4M3 : HOOP_WIRE_FLOAT32;
        c.options.slice_bytes *= 4;
        c.options.stage_bytes = 1024 * (uint32_t)(size * (4 + (int)tap_pick(8)) + 16);
    }
    hp_plan_make(&plan, &c.call, NULL, order, size, &c.options, 0, 1);
    c.by_host = plan.algorithm == HP_ALG_LEVELS;
    return c;
}

static void
test_levels(void)
{
    static const int kinds[] = {HP_ALLREDUCE, HP_REDUCE_SCATTER, HP_ALLGATHER, HP_BARRIER};
    static const char *const forms[] = {"as they are", "in a narrower type", "in blocks with a scale",
                                        "in a wider type"};
    for (int i = 0; i < 4; i++)
        for (int form = 0; form < (hp_kind_reduces(kinds[i]) ? 4 : 1); form++) {
            int right = 1, over = 0;
            for (int k = 0; k < 150 && right; k++) {
                sym_case c = over_hosts(kinds[i], form);
                over += c.by_host;
                right = holds(&c);
            }
            ok(right, "%s: over hosts, between them %s", hp_kind_name(kinds[i]), forms[form]);
            ok(over > 50, "... and it was over two levels (%d times)", over);
        }
}

/* The hazard that has a rule of its own: what arrives may land on a block that has yet to leave. */
static void
test_alltoall_in_place(void)
{
    int right = 1;
    for (int k = 0; k < 1500 && right; k++) {
        sym_case c = make(HP_ALLTOALL, 2 + k % 9, 1 + tap_pick(9));
        c.place.in_place = 1;
        c.seed = tap_random() | 1;
        c.window = c.options.slices + 1 + (uint32_t)tap_pick(20);
        c.wire = (uint32_t)tap_pick(3) * 50;
        c.early_commands = (int)tap_pick(2);
        right = holds(&c);
    }
    ok(right, "alltoall in place saves every block before it is overwritten");
}

static void
test_channels(void)
{
    for (int kind = HP_ALLREDUCE; kind < HP_KINDS; kind++) {
        int right = 1;
        if (kind == HP_BARRIER)
            continue;
        for (int k = 0; k < 120 && right; k++) {
            sym_case c = make(kind, 2 + k % 7, tap_pick(70));
            c.channels = 2 + (uint32_t)tap_pick(2);
            c.options.spread_bytes = c.options.halves_bytes = 0;
            right = holds(&c);
        }
        ok(right, "%s: two and three channels share the vector", hp_kind_name(kind));
    }
}

/* Long enough chunks are cut on cache lines: eight symbols. */
static void
test_grains(void)
{
    static const int kinds[] = {HP_ALLREDUCE, HP_REDUCE_SCATTER, HP_ALLGATHER, HP_REDUCE_SCATTERV, HP_ALLGATHERV};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        int right = 1, kind = kinds[i];
        for (int k = 0; k < 60 && right; k++) {
            int n = 2 + k % 4;
            sym_case c = make(kind, n, 0);
            c.options.spread_bytes = 0;
            c.options.slice_bytes = 64 * (1 + (uint32_t)tap_pick(3)) + 8 * (uint32_t)tap_pick(8);
            c.call.count = (kind == HP_ALLREDUCE ? (uint64_t)n : 1) * 128 * c.options.slices + tap_pick(100);
            right = holds(&c);
        }
        ok(right, "%s: cuts on cache lines cover everything too", hp_kind_name(kind));
    }
}

static void
test_large_rings(void)
{
    static const int sizes[] = {64, 257, 513};
    for (int kind = HP_ALLREDUCE; kind < HP_KINDS; kind++) {
        int right = 1;
        for (int k = 0; k < 3 && right; k++) {
            int n = sizes[k];
            if (n == 513 && kind != HP_ALLREDUCE && kind != HP_BROADCAST) /* many messages, no new case */
                continue;
            sym_case c = make(kind, n, kind == HP_BARRIER ? 0 : kind == HP_ALLREDUCE ? (uint64_t)n + 1 : 2);
            c.options.spread_bytes = c.options.halves_bytes = 0;
            c.options.slice_bytes = 64;
            right = holds(&c);
        }
        ok(right, "%s on large rings", hp_kind_name(kind));
    }
}

/* A symbol counted twice, lost, or a slot used again too soon must show: the interpreter can fail. */
static void
test_that_it_can_fail(void)
{
    char why[200];
    sym_case c = make(HP_ALLREDUCE, 4, 40);
    c.call.ordered = 0;
    c.options = (hp_plan_options){.slice_bytes = 24, .slices = 3, .channels = 1, .stage_bytes = 64};
    c.window = 3;
    c.wire = 0;
    ok(!sym_run(&c, why, sizeof(why)), "a window of S locks on wires that hold nothing: %s", why);
    c.window = 4;
    ok(sym_run(&c, why, sizeof(why)), "a window of S + 1 does not");
    c = make(HP_ALLTOALL, 5, 6);
    c.place = (hp_place_options){.direct = 1, .in_place = 0};
    ok(sym_run(&c, why, sizeof(why)), "alltoall straight from user memory");
}

/* --- the table at the head of place.c --- */

static hp_placement
placed(int flags, const hp_place_options *o)
{
    hp_plan plan = {.algorithm = HP_ALG_RING, .kind = HP_ALLREDUCE, .size = 4, .elem = 4, .grain = 1, .slices = 1};
    hp_step step = {.flags = (uint16_t)flags, .from = 1, .to = 1, .in = 100, .out = 200};
    step.recv_count = flags & HP_STEP_RECV ? 10 : 0;
    step.send_count = flags & HP_STEP_SEND ? 10 : 0;
    return hp_place(&plan, &step, o);
}

static void
test_table(void)
{
    enum { SEND = HP_STEP_LOAD | HP_STEP_SEND, RRS = HP_STEP_RECV | HP_STEP_REDUCE | HP_STEP_SEND };
    enum { RRCS = RRS | HP_STEP_COPY | HP_STEP_DIVIDE, RCS = HP_STEP_RECV | HP_STEP_COPY | HP_STEP_SEND };
    const hp_place_options slots = {0}, direct = {.direct = 1};
    hp_placement p = placed(SEND, &slots);
    ok(p.send.where == HP_SLOT && p.tasks == 1 && p.task[0].src[0].at == 100,
       "send: saved in the slot, sent from there");
    p = placed(SEND, &direct);
    ok(p.send.where == HP_SENDBUF && p.send.at == 100 && p.tasks == 0, "send, direct: from sendbuf, no command");
    p = placed(RRS, &direct);
    ok(p.recv.where == HP_SLOT && p.send.where == HP_SLOT && p.tasks == 1 && p.task[0].destinations == 1 && !p.forward,
       "recvReduceSend: slot op in -> slot");
    p = placed(RRCS, &slots);
    ok(p.task[0].destinations == 2 && p.task[0].divide && p.send.where == HP_SLOT,
       "recvReduceCopySend: to slot and out");
    p = placed(RRCS, &direct);
    ok(p.task[0].destinations == 1 && p.task[0].dst[0].at == 200 && p.send.where == HP_RECVBUF,
       "recvReduceCopySend, direct: to out, sent from there");
    p = placed(RCS, &slots);
    ok(p.recv.where == HP_SLOT && p.forward && p.tasks == 1, "recvCopySend: forwarded before the copy ends");
    p = placed(RCS, &direct);
    ok(p.recv.where == HP_RECVBUF && p.send.where == HP_RECVBUF && p.forward && p.tasks == 0,
       "recvCopySend, direct: into out, forwarded from there");
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    mallopt(M_MMAP_THRESHOLD, 1 << 30); /* freed arrays keep their pages */
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    tap_seed();
    test_table();
    test_that_it_can_fail();
    test_promises();
    test_alone();
    test_interleavings();
    test_halves();
    test_doubling();
    test_ordered(0);
    test_ordered(1);
    test_ordered(2);
    test_levels();
    test_alltoall_in_place();
    test_channels();
    test_grains();
    test_large_rings();
    return tap_failures() != 0;
}
