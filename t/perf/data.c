/* SPDX-License-Identifier: MIT */
/*
 * The benchmark's patterns: small floats are encoded as their definitions say (known values), and what is expected of a
 * reduction is what the library's own kernels make of it, in any order of the ranks. Two independent ways, one answer.
 * A mean of small floats has a range instead, which must have no room for what is not one.
 */
#include "perf/data.h"

#include "gpu/gpu.h"
#include "t/tap/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES = 700, MOST_RANKS = 65 };

static void
encodes(const char *name, double value, unsigned wanted)
{
    uint16_t bits = 0;
    perf_put_float(perf_type_at(perf_type_named(name)), &bits, value);
    is_uint(wanted, bits, "%s of %g", name, value);
}

static void
known_values(void)
{
    encodes("half", 0, 0);
    encodes("half", 1, 0x3C00);
    encodes("half", -2, 0xC000);
    encodes("half", 65504, 0x7BFF);
    encodes("half", 0.1, 0x2E66);
    encodes("half", ldexp(1, -14), 0x0400);
    encodes("half", ldexp(1, -24), 0x0001);
    encodes("half", 2049, 0x6800); /* ties go to even */
    encodes("half", 2051, 0x6802);
    encodes("half", ldexp(1023.75, -24), 0x0400); /* rounds up from the subnormal numbers */
    encodes("bfloat16", 1, 0x3F80);
    encodes("bfloat16", -255.5, 0xC380); /* a tie, to the even 256 */
    encodes("bfloat16", 256, 0x4380);
    encodes("f8e4m3", 1, 0x38);
    encodes("f8e4m3", 448, 0x7E);
    encodes("f8e4m3", ldexp(1, -9), 0x01);
    encodes("f8e4m3", 17, 0x58);
    encodes("f8e5m2", 1, 0x3C);
    encodes("f8e5m2", -57344, 0xFB);
    encodes("f8e5m2", ldexp(1, -16), 0x01);
    encodes("f8e5m2", 5.0 / 3.0, 0x3F);
}

/* What the library's kernels make of the ranks' data, taken in the order start, start + step, ... */
static void
reduce(const perf_pattern *p, uint8_t *total, int start, int step)
{
    uint64_t next[ENTRIES];
    int alone = p->ranks == 1 && p->type->kind == PERF_BOOL; /* then a ring makes 0 or 1 of it, too */
    perf_pattern_send(p, start, total, ENTRIES);
    for (int i = 1; i < p->ranks || alone; i++, alone = 0) {
        perf_pattern_send(p, (start + i * step) % p->ranks, next, ENTRIES);
        hp_command command = {.elem = p->type->dtype, .wire = p->type->dtype, .op = (hoop_op)p->op, .sources = 2};
        command.op = alone ? HOOP_MAX : command.op;
        command.destinations = 1;
        command.src[0].ptr = total;
        command.src[1].ptr = next;
        command.dst[0].ptr = total;
        command.count = ENTRIES;
        if (perf_pattern_is_rounded(p)) {
            command.ranks[0] = (uint32_t)i;
            command.ranks[1] = 1;
        } else {
            command.divisor = p->op == HOOP_AVG && i == p->ranks - 1 ? (uint32_t)p->ranks : 0;
        }
        hp_host_run(&command);
    }
}

/* Elements that are not in their range. */
static int
outside(const perf_pattern *p, const void *elements)
{
    static perf_range ranges[ENTRIES];
    int count = 0;
    perf_pattern_range(p, ranges, ENTRIES);
    for (int i = 0; i < ENTRIES; i++) {
        int order = perf_order(p->type, (const uint8_t *)elements + (size_t)i * p->type->size);
        count += order < ranges[i].least || order > ranges[i].greatest;
    }
    return count;
}

/* What a sum would be that is divided at the end, or one of parts, rounded as they travel; `from` leaves out a rank. */
static int
outside_if(const perf_pattern *p, int parts, int from)
{
    uint8_t sum[ENTRIES * 2], own[ENTRIES * 2], result[ENTRIES * 2];
    for (int rank = from; rank < p->ranks; rank++) {
        perf_pattern_send(p, rank, own, ENTRIES);
        hp_command command = {
            .elem = p->type->dtype, .wire = p->type->dtype, .op = HOOP_SUM, .sources = 1, .destinations = 1};
        command.divisor = parts ? (uint32_t)p->ranks : 0;
        command.count = ENTRIES;
        command.src[0].ptr = own;
        command.dst[0].ptr = rank == from ? sum : own;
        hp_host_run(&command);
        command.sources = 2;
        command.divisor = !parts && rank == p->ranks - 1 ? (uint32_t)p->ranks : 0;
        command.src[0].ptr = command.dst[0].ptr = sum;
        command.src[1].ptr = own;
        if (rank > from)
            hp_host_run(&command);
    }
    memcpy(result, sum, sizeof(result));
    return outside(p, result);
}

static void
is_in_range(const perf_pattern *p)
{
    uint64_t forward[ENTRIES] = {0}, backward[ENTRIES] = {0};
    reduce(p, (uint8_t *)forward, 0, 1);
    reduce(p, (uint8_t *)backward, p->ranks - 1, p->ranks - 1);
    is_int(0, outside(p, forward), "%s avg over %d ranks is in its range", p->type->name, p->ranks);
    is_int(0, outside(p, backward), "... and in the opposite order");
    if (p->ranks > 2) {
        ok(outside_if(p, 0, 0) > ENTRIES / 16, "... but not if sums travel: they overflow");
        ok(outside_if(p, 1, 0) > ENTRIES / 50, "... nor if parts do: they underflow");
        ok(outside_if(p, 0, 1) > ENTRIES / 16, "... nor without a rank");
    }
}

/* A rank left out of a mean of all others shows where it has a NaN. */
static void
misses_nobody(const perf_pattern *p)
{
    uint16_t own[ENTRIES];
    int unseen = 0;
    for (int rank = 0; rank < p->ranks; rank++) {
        int specials = 0;
        perf_pattern_send(p, rank, own, ENTRIES);
        for (int i = 0; i < ENTRIES; i++)
            specials += perf_order(p->type, (uint8_t *)own + (size_t)i * p->type->size) == perf_order_of_nan(p->type);
        unseen += specials == 0;
    }
    is_int(0, unseen, "each of %d ranks has a NaN among %d elements", p->ranks, ENTRIES);
}

static void
orders(void)
{
    for (int i = 0; i < PERF_TYPES; i++) {
        const perf_type *type = perf_type_at(i);
        if (!perf_type_is_small(type))
            continue;
        int largest = perf_order_of_largest(type), wrong = 0;
        for (int order = -largest; order <= largest; order++) {
            uint8_t put[2] = {0}, float_of[2] = {0};
            perf_put_order(type, put, order);
            perf_put_float(type, float_of, perf_value_at(type, order));
            wrong += memcmp(put, float_of, 2) != 0 || perf_order(type, put) != order;
            wrong += order > -largest && !(perf_value_at(type, order) > perf_value_at(type, order - 1));
        }
        is_int(0, wrong, "%s: every number by its order, and %g is the largest", type->name,
               perf_value_at(type, largest));
    }
}

static void
agrees(const perf_pattern *p, const char *op)
{
    uint64_t wanted[ENTRIES] = {0}, forward[ENTRIES] = {0}, backward[ENTRIES] = {0};
    size_t bytes = ENTRIES * p->type->size;
    perf_pattern_reduced(p, wanted, ENTRIES);
    reduce(p, (uint8_t *)forward, 0, 1);
    reduce(p, (uint8_t *)backward, p->ranks - 1, p->ranks - 1);
    is_blob(wanted, forward, bytes, "%s %s over %d ranks", p->type->name, op, p->ranks);
    is_blob(wanted, backward, bytes, "... and in the opposite order");
}

/* Leaving one rank out, or counting it twice, must show: somewhere in the table, whichever rank it is. */
static void
notices(const perf_pattern *p)
{
    uint64_t with[ENTRIES] = {0}, own[ENTRIES] = {0};
    int unseen = 0;
    for (int rank = 0; rank < p->ranks; rank++) {
        perf_pattern_send(p, rank, own, ENTRIES);
        perf_pattern_send(p, (rank + 1) % p->ranks, with, ENTRIES);
        unseen += memcmp(own, with, ENTRIES * p->type->size) == 0;
    }
    is_int(0, unseen, "no two neighbours send the same");
}

int
main(void)
{
    static const int ranks[] = {1, 2, 3, 7, 8, 17, MOST_RANKS};
    plan_lazy();
    tap_limit(240);
    known_values();
    orders();
    for (int type = 0; type < PERF_TYPES; type++)
        for (int op = 0; op < PERF_OPS; op++)
            for (size_t i = 0; i < sizeof(ranks) / sizeof(*ranks); i++) {
                perf_pattern p = {
                    .type = perf_type_at(type), .op = (int)perf_op_at(op), .ranks = ranks[i], .seed = tap_random()};
                if (!perf_op_applies(op, p.type))
                    continue;
                if (perf_pattern_is_rounded(&p)) {
                    is_in_range(&p);
                    misses_nobody(&p);
                } else {
                    agrees(&p, perf_op_name(op));
                }
                if (p.ranks > 1)
                    notices(&p);
            }
    return 0;
}
