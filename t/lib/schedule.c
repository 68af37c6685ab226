/* SPDX-License-Identifier: MIT */
/*
 * The two laws of lib/schedule on every collective, ring size and cut, small and beyond 2^40 bytes: what is sent as
 * step i over a distance is received as step i + S over the same distance, in count and in meaning; step 0 announces.
 * Besides: ranges stay within the arrays and the slots, first frames are marked, the bytes a rank sends, and the
 * five-rank tables that every text on ring allreduce prints. What the steps amount to is place.c's.
 */
#include "lib/schedule.h"

#include "base/dtype.h"
#include "t/sim/blocks.h"
#include "t/sim/hosts.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <string.h>

enum { SIZE_MAX_HERE = 1000, SAMPLES = 1500, ALL_STEPS = 20000, COUNTS = 16 };

typedef struct config {
    hp_call call;
    hp_plan plan;
    hp_plan_options options;
    int size;
    const int *order;
} config;

static int order[SIZE_MAX_HERE];
static hp_block blocks[SIZE_MAX_HERE]; /* of the last config that has some */
static uint64_t span;                  /* elements that they span */

static int
has_root(int kind)
{
    return kind == HP_BROADCAST || kind == HP_REDUCE || kind == HP_GATHER || kind == HP_SCATTER;
}

static config
make(int kind, int size, uint64_t count, hoop_dtype dtype, uint32_t slices, uint32_t slice_bytes, uint32_t channel,
     uint32_t channels)
{
    config c = {.size = size, .order = order};
    tap_shuffle(order, size);
    c.call = (hp_call){.kind = (uint8_t)kind, .dtype = (uint8_t)dtype, .root = -1, .count = count};
    c.call.ordered = hp_kind_reduces(kind) && size <= HP_ORDERED_MOST && tap_pick(3) == 0;
    if (has_root(kind))
        c.call.root = (int)tap_pick((uint64_t)size);
    c.options =
        (hp_plan_options){.slice_bytes = slice_bytes, .slices = slices, .channels = channels, .stage_bytes = 256 << 10};
    c.options.spread_bytes = tap_pick(2) ? (32 << 10) * (uint32_t)size : 0;
    c.options.halves_bytes = tap_pick(2) ? 256 << 10 : 0;
    if (hp_kind_has_counts(kind)) {
        c.call.root = (int)tap_pick(INT32_MAX);
        span = sim_blocks(blocks, &c.call, 0, size);
    }
    c.options.levels = 1;
    c.options.hosts = tap_pick(2) ? sim_hosts(size, tap_pick(2) ? 1 + tap_pick((uint64_t)size) : 0, order) : NULL;
    c.options.one_bytes = tap_pick(2) ? 4096 : 0;
    c.options.whole_bytes = tap_pick(2) ? 16384 : 0;
    c.options.block_bytes = 1 << tap_pick(18);
    hp_plan_make(&c.plan, &c.call, blocks, order, size, &c.options, channel, channels);
    return c;
}

static hp_step
at(const config *c, int64_t position, uint64_t i)
{
    int n = c->size;
    return hp_schedule_at(&c->plan, c->order, (int)((position % n + n) % n), i);
}

static int
complain(const config *c, int position, uint64_t i, const char *what)
{
    char call[80];
    diag("%s: %s on %d ranks, position %d, step %ju of %ju (S %u, loops %ju, grain %u)", what,
         hp_call_print(&c->call, call, sizeof(call)), c->size, position, (uintmax_t)i, (uintmax_t)c->plan.steps,
         c->plan.slices, (uintmax_t)c->plan.loops, c->plan.grain);
    return 0;
}

/* --- the law of lag --- */

/* Whether both sides mean the same elements of the same block. */
static int
same_meaning(const config *c, int position, const hp_step *sent, const hp_step *got)
{
    uint64_t block = c->plan.block;
    int n = c->size, peer = c->order[(position + sent->to) % n], me = c->order[position];
    switch (c->plan.algorithm) {
    case HP_ALG_RING:
        if (c->plan.kind == HP_ALLREDUCE)
            return sent->in == got->in && sent->out == got->out;
        return c->plan.kind == HP_ALLGATHER || c->plan.kind == HP_ALLGATHERV ? sent->out == got->out
                                                                             : sent->in == got->in;
    case HP_ALG_GATHER: return sent->out == got->out;
    case HP_ALG_SCATTER: return sent->in == got->in;
    case HP_ALG_PAIRWISE: return sent->in - block * (uint64_t)peer == got->out - block * (uint64_t)me;
    case HP_ALG_HALVES: /* parts to.. become the receiver's first ones; its gathered ones lie behind its own */
        if (got->flags & HP_STEP_REDUCE)
            return sent->stage_send == (uint64_t)sent->to * c->plan.part;
        return got->stage_recv - sent->stage_send == (uint64_t)sent->to * c->plan.part;
    case HP_ALG_DOUBLING: /* every area but the first is the place of one receive */
        return got->stage_recv - sent->stage_send == c->plan.count;
    case HP_ALG_ALLPAIRS: /* what is given, into the receiver's room of the sender; or a result */
        if (sent->flags & HP_STEP_LOAD)
            return (got->stage_recv / c->plan.part - 2) % (uint64_t)(n - 1) + 1 == (uint64_t)sent->to;
        return sent->out == got->out || c->plan.kind == HP_REDUCE;
    case HP_ALG_LEVELS: /* what is complete lies at one place of the vector */
        return !(sent->flags & HP_STEP_WHOLE) || sent->in == got->out;
    case HP_ALG_SPREAD: return got->stage_recv == (uint64_t)sent->to * c->plan.count;
    default: return sent->in == got->in && sent->out == got->out;
    }
}

static int
lag_forward(const config *c, int position, uint64_t i)
{
    hp_step sent = at(c, position, i), got;
    if (!(sent.flags & HP_STEP_SEND))
        return 1;
    if (sent.to < 1 || sent.to >= c->size)
        return complain(c, position, i, "sends to no rank");
    if (i + c->plan.slices >= c->plan.steps)
        return complain(c, position, i, "sends past the end");
    got = at(c, (int64_t)position + sent.to, i + c->plan.slices);
    if (!(got.flags & HP_STEP_RECV) || got.from != sent.to || got.recv_count != sent.send_count)
        return complain(c, position, i, "sends what is not received");
    if (got.recv_first != sent.send_first)
        return complain(c, position, i, "the first frame is not marked on both sides");
    if (sent.send_count > 0 && !same_meaning(c, position, &sent, &got))
        return complain(c, position, i, "sends other elements than are received");
    return 1;
}

static int
lag_backward(const config *c, int position, uint64_t i)
{
    hp_step got = at(c, position, i), sent;
    if (!(got.flags & HP_STEP_RECV))
        return 1;
    if (got.from < 1 || got.from >= c->size || i < c->plan.slices)
        return complain(c, position, i, "receives from no rank");
    sent = at(c, (int64_t)position - got.from, i - c->plan.slices);
    if (!(sent.flags & HP_STEP_SEND) || sent.to != got.from || sent.send_count != got.recv_count)
        return complain(c, position, i, "receives what is not sent");
    return 1;
}

/* --- ranges --- */

static uint64_t
extent(const config *c, int rank, int sending)
{
    uint64_t count = c->call.count, all = count * (uint64_t)c->size;
    int root = c->call.root == rank;
    switch ((hp_kind)c->call.kind) {
    case HP_ALLGATHERV: return sending ? blocks[rank].count : span;
    case HP_REDUCE_SCATTERV: return sending ? span : blocks[rank].count;
    case HP_REDUCE_SCATTER: return sending ? all : count;
    case HP_ALLGATHER: return sending ? count : all;
    case HP_BROADCAST: return sending && !root ? 0 : count;
    case HP_REDUCE: return sending || root ? count : 0;
    case HP_GATHER: return sending ? count : root ? all : 0;
    case HP_SCATTER: return sending ? (root ? all : 0) : count;
    case HP_ALLTOALL: return all;
    default: return count;
    }
}

static int
fits(uint64_t first, uint64_t count, uint64_t room)
{
    return count == 0 || (first <= room && count <= room - first);
}

/* What a step of the levels reads from the caller's arrays, and writes there. */
static int
level_ranges_are_sound(const config *c, int position, uint64_t i)
{
    hp_step s = at(c, position, i);
    uint64_t sends = extent(c, c->order[position], 1), recvs = extent(c, c->order[position], 0);
    int reads = (s.flags & HP_STEP_OWN) || ((s.flags & HP_STEP_REDUCE) && !(s.flags & HP_STEP_DIVIDE));
    if (((s.flags & HP_STEP_LOAD) && !fits(s.in, s.send_count, sends)) ||
        (reads && !fits(s.own.in, s.own.count, sends)) ||
        ((s.flags & HP_STEP_COPY) && !fits(s.out, s.recv_count, recvs)) ||
        ((s.flags & (HP_STEP_OWN | HP_STEP_DIVIDE)) && !fits(s.own.out, s.own.count, recvs)))
        return complain(c, position, i, "leaves the caller's arrays");
    return 1;
}

static int
ranges_are_sound(const config *c, int position, uint64_t i)
{
    hp_step s = at(c, position, i);
    uint64_t slot = c->options.slice_bytes / c->plan.elem, stage = c->options.stage_bytes / c->plan.elem;
    int rank = c->order[position], reads = s.flags & (HP_STEP_LOAD | HP_STEP_REDUCE);
    uint64_t sends = extent(c, rank, 1), recvs = extent(c, rank, 0);
    uint64_t count = s.flags & HP_STEP_RECV ? s.recv_count : s.send_count;
    if ((s.flags & HP_STEP_STAGED) &&
        !(fits(s.stage_recv, s.recv_count, stage) && fits(s.stage_send, s.send_count, stage) &&
          fits(s.stage_into, s.recv_count, stage) && fits(s.stage_sum, s.own.count, stage)))
        return complain(c, position, i, "leaves the stage");
    if (s.flags & HP_STEP_STAGED)
        return c->plan.algorithm != HP_ALG_LEVELS || level_ranges_are_sound(c, position, i);
    if (s.recv_count > slot || s.send_count > slot)
        return complain(c, position, i, "a slice exceeds the slot");
    if (reads && !fits(s.in, s.flags & HP_STEP_LOAD ? s.send_count : count, sends))
        return complain(c, position, i, "reads past sendbuf");
    if ((s.flags & HP_STEP_COPY) && !fits(s.out, count, recvs))
        return complain(c, position, i, "writes past recvbuf");
    if ((s.flags & HP_STEP_OWN) && (!fits(s.own.in, s.own.count, sends) || !fits(s.own.out, s.own.count, recvs)))
        return complain(c, position, i, "the own block is out of range");
    return 1;
}

/* Only these sets of flags have a place in lib/place. */
static int
flags_are_known(const config *c, int position, uint64_t i)
{
    hp_step s = at(c, position, i);
    int divides = s.flags & HP_STEP_DIVIDE, reduces = s.flags & HP_STEP_REDUCE;
    if ((s.flags & HP_STEP_LOAD) && !(s.flags & HP_STEP_SEND))
        return complain(c, position, i, "loads and does not send");
    if (s.recv_count == 0) /* nothing there to reduce or divide */
        return 1;
    if (divides && (!reduces || !(s.flags & (HP_STEP_COPY | HP_STEP_STAGED))))
        return complain(c, position, i, "divides what is not a final result");
    if (reduces && !(s.flags & HP_STEP_STAGED) && !(s.flags & HP_STEP_RECV))
        return complain(c, position, i, "reduces nothing");
    return 1;
}

/* In an exchange each rank receives from the one that it has sent to; others announce themselves. */
static int
exchanges(const config *c, int position, uint64_t i)
{
    hp_step sent = at(c, position, i), got = at(c, position, i + 1);
    if ((sent.flags & got.flags & HP_STEP_EXCHANGE) && sent.send_first && got.recv_first &&
        sent.to + got.from == c->size && sent.send_count == got.recv_count)
        return 1;
    return complain(c, position, i, "is no exchange");
}

static int
announces(const config *c)
{
    if (c->plan.algorithm == HP_ALG_LEVELS) /* see schedule.h */
        return 1;
    for (uint64_t k = 0; k < (c->plan.exchanges ? (c->plan.steps - 1) * (uint64_t)c->size : 0); k++)
        if (!exchanges(c, (int)(k % (uint64_t)c->size), k / (uint64_t)c->size))
            return 0;
    if (c->plan.exchanges)
        return 1;
    for (int r = 0; r < c->size; r++) {
        hp_step first = at(c, r, 0), answer = at(c, r, c->plan.slices);
        if (!(first.flags & HP_STEP_SEND) || first.to != 1 || !first.send_first)
            return complain(c, r, 0, "does not announce itself");
        if (!(answer.flags & HP_STEP_RECV) || answer.from != 1 || !answer.recv_first)
            return complain(c, r, c->plan.slices, "does not hear its neighbour");
    }
    return 1;
}

static int
step_is_lawful(const config *c, int position, uint64_t i)
{
    return lag_forward(c, position, i) && lag_backward(c, position, i) && ranges_are_sound(c, position, i) &&
           flags_are_known(c, position, i);
}

/* All steps of all ranks when they are few, else a sample with both ends. */
static int
is_lawful(const config *c)
{
    uint64_t steps = c->plan.steps, n = (uint64_t)c->size;
    if (n == 1)
        return c->plan.steps == 1 && at(c, 0, 0).flags == HP_STEP_OWN && at(c, 0, 0).own.count == c->call.count;
    if (!announces(c))
        return 0;
    if (steps * n <= ALL_STEPS) {
        for (uint64_t k = 0; k < steps * n; k++)
            if (!step_is_lawful(c, (int)(k % n), k / n))
                return 0;
        return 1;
    }
    for (uint64_t k = 0; k < SAMPLES; k++) {
        uint64_t i = k % 4 == 0 ? k / 4 % steps : k % 4 == 1 ? steps - 1 - k / 4 % steps : tap_pick(steps);
        if (!step_is_lawful(c, (int)tap_pick(n), i))
            return 0;
    }
    return 1;
}

static int
sizes_at(int i)
{
    static const int more[] = {64, 257, 1000};
    return i < 17 ? i + 1 : more[i - 17];
}

/* 0, 1, around n, primes, and totals whose bytes pass 2^32 and 2^40 (for blocked kinds the block alone does). */
static uint64_t
count_at(int i, int n)
{
    const uint64_t counts[COUNTS] = {0,
                                     1,
                                     (uint64_t)n - 1,
                                     (uint64_t)n,
                                     (uint64_t)n + 1,
                                     31,
                                     997,
                                     1021,
                                     65537,
                                     (1 << 20) + 3,
                                     (UINT64_C(1) << 30) + 1,
                                     (UINT64_C(1) << 32) + 15,
                                     UINT64_C(1099511627791),
                                     UINT64_C(1) << 41,
                                     (UINT64_C(1) << 43) - 57,
                                     4096 * (uint64_t)n};
    return counts[i];
}

static void
test_laws(void)
{
    static const uint32_t slots[] = {4096, 65536, 256 << 10, 1 << 20}, slices[] = {1, 2, 3, 4, 8, 31};
    static const hoop_dtype dtypes[] = {HOOP_UINT8, HOOP_BFLOAT16, HOOP_FLOAT32, HOOP_INT64};
    for (int kind = HP_ALLREDUCE; kind < HP_KINDS; kind++) {
        int right = 1, cases = 0;
        for (int k = 0; k < 20 * COUNTS * 3 && right; k++, cases++) {
            int n = sizes_at(k % 20);
            uint32_t channels = n == 1 ? 1 : 1 + (uint32_t)(k / 20 / COUNTS), channel = (uint32_t)tap_pick(channels);
            uint64_t count = kind == HP_BARRIER ? 0 : count_at(k / 20 % COUNTS, n);
            config c =
                make(kind, n, count, dtypes[tap_pick(4)], slices[tap_pick(6)], slots[tap_pick(4)], channel, channels);
            right = is_lawful(&c);
        }
        ok(right, "%s: lag, announcement, ranges and flags in %d cuts", hp_kind_name(kind), cases);
    }
}

/* --- first frames --- */

/* Over each distance exactly the first frame is marked. */
static int
marks_first(const config *c, int position)
{
    uint8_t sent[SIZE_MAX_HERE] = {0}, got[SIZE_MAX_HERE] = {0};
    for (uint64_t i = 0; i < c->plan.steps; i++) {
        hp_step s = at(c, position, i);
        if ((s.flags & HP_STEP_SEND) && s.send_first == sent[s.to])
            return complain(c, position, i, "marks the wrong frame it sends");
        if ((s.flags & HP_STEP_RECV) && s.recv_first == got[s.from])
            return complain(c, position, i, "marks the wrong frame it receives");
        if (s.flags & HP_STEP_SEND)
            sent[s.to] = 1;
        if (s.flags & HP_STEP_RECV)
            got[s.from] = 1;
    }
    return 1;
}

static void
test_first_frames(void)
{
    for (int kind = HP_ALLREDUCE; kind < HP_KINDS; kind++) {
        int right = 1;
        for (int k = 0; k < 16 * 8 && right; k++) {
            int n = 2 + k % 16;
            config c = make(kind, n, kind == HP_BARRIER ? 0 : tap_pick(30000), HOOP_INT32, 1 + (uint32_t)tap_pick(4),
                            4096, 0, 1);
            for (int r = 0; r < n && right; r++)
                right = marks_first(&c, r);
        }
        ok(right, "%s: the first frame over each distance carries the call, no other does", hp_kind_name(kind));
    }
}

/* --- bytes --- */

static uint64_t
elements_sent(const config *c, int position)
{
    uint64_t total = 0;
    for (uint64_t i = 0; i < c->plan.steps; i++) {
        hp_step s = at(c, position, i);
        if (s.flags & HP_STEP_SEND)
            total += s.send_count;
    }
    return total;
}

/* Allreduce: 2N(n-1) over all ranks, and each within the rounding of its chunks of 2N(n-1)/n. */
static int
allreduce_bytes(int n, uint64_t count, uint32_t slices)
{
    config c = make(HP_ALLREDUCE, n, count, HOOP_FLOAT32, slices, 4096, 0, 1);
    uint64_t all = 0, ideal = 2 * count * (uint64_t)(n - 1) / (uint64_t)n, slack = 4 * c.plan.loops * c.plan.grain + 1;
    if (c.plan.algorithm == HP_ALG_ALLPAIRS) /* an owner sends each result to all others */
        slack *= (uint64_t)n;
    else if (c.plan.algorithm != HP_ALG_RING)
        return 1;
    for (int r = 0; r < n; r++) {
        uint64_t mine = elements_sent(&c, r);
        if (mine + slack < ideal || mine > ideal + slack)
            return complain(&c, r, 0, "sends more or less than its share");
        all += mine;
    }
    return all == 2 * count * (uint64_t)(n - 1) || complain(&c, 0, 0, "all together send a wrong total");
}

static void
test_bytes(void)
{
    int right = 1;
    for (int n = 2; n <= 17 && right; n++)
        for (int k = 0; k < COUNTS && right; k++)
            if (count_at(k, n) < 1 << 21)
                right = allreduce_bytes(n, count_at(k, n), 1 + (uint32_t)tap_pick(5));
    right =
        right && allreduce_bytes(64, 100003, 4) && allreduce_bytes(257, 100003, 2) && allreduce_bytes(1000, 9973, 4);
    ok(right, "allreduce sends 2N(n-1) elements in all, 2N(n-1)/n from each rank within rounding");
}

/* Everybody's total, as each kind's lower bound wants it (a gather's block b hops, and so on). */
static uint64_t
total_of(int kind, uint64_t n, uint64_t count)
{
    switch ((hp_kind)kind) {
    case HP_REDUCE_SCATTER:
    case HP_ALLGATHER: return n * (n - 1) * count;
    case HP_BROADCAST:
    case HP_ALLGATHERV:
    case HP_REDUCE_SCATTERV:
    case HP_REDUCE: return (n - 1) * count;
    case HP_GATHER:
    case HP_SCATTER: return n * (n - 1) / 2 * count;
    case HP_ALLTOALL: return n * (n - 1) * count;
    default: return 0;
    }
}

static void
test_other_bytes(void)
{
    for (int kind = HP_REDUCE_SCATTER; kind < HP_KINDS; kind++) {
        int right = 1;
        if (kind == HP_BARRIER)
            continue;
        for (int k = 0; k < 16 * COUNTS && right; k++) {
            int n = 2 + k % 16;
            uint64_t all = 0, count = count_at(k / 16, n);
            if (count > 1 << 17)
                continue;
            config c = make(kind, n, count, HOOP_INT32, 1 + (uint32_t)tap_pick(5), 4096, 0, 1);
            for (int r = 0; r < n; r++)
                all += elements_sent(&c, r);
            /* in rank order, owners hand the root what they have summed */
            uint64_t least = total_of(kind, (uint64_t)n, count), more = kind == HP_REDUCE && c.call.ordered ? count : 0;
            right = (all >= least && all <= least + more) || complain(&c, 0, 0, "a wrong total");
        }
        ok(right, "%s: no element travels further than it must", hp_kind_name(kind));
    }
}

/* --- the tables that texts print, five ranks --- */

static const int natural[5] = {0, 1, 2, 3, 4};

/* An allreduce of five chunks of one element each: element number = chunk number. */
static hp_step
five(int rank, uint64_t row, hp_kind kind)
{
    hp_call call = {.kind = (uint8_t)kind, .dtype = HOOP_INT32, .root = -1, .count = kind == HP_ALLREDUCE ? 5 : 1};
    hp_plan_options o = {.slice_bytes = 4096, .slices = 4, .channels = 1, .stage_bytes = 4096};
    hp_plan plan;
    hp_plan_make(&plan, &call, NULL, natural, 5, &o, 0, 1);
    return hp_schedule_at(&plan, natural, rank, row);
}

/* Their chunk c is our chunk c - 1: the texts begin with chunk r, hoop with r - 1, so that rank r ends with chunk r. */
static uint64_t
theirs(uint64_t chunk)
{
    return (chunk + 1) % 5;
}

static void
test_tables(void)
{
    static const uint64_t sends[5] = {0, 1, 2, 3, 4}, gets[5] = {4, 0, 1, 2, 3};
    uint64_t row = 0;
    for (int r = 0; r < 5; r++) {
        hp_step out = five(r, 0, HP_ALLREDUCE), in = five(r, 1, HP_ALLREDUCE);
        is_uint(sends[r], theirs(out.in), "reduce-scatter, first exchange: rank %d sends chunk %ju", r,
                (uintmax_t)sends[r]);
        is_uint(gets[r], theirs(in.in), "reduce-scatter, first exchange: rank %d gets chunk %ju", r,
                (uintmax_t)gets[r]);
    }
    for (int r = 0; r < 5; r++) {
        hp_step out = five(r, 4, HP_ALLREDUCE), in = five(r, 5, HP_ALLREDUCE);
        is_uint((uint64_t)(r + 1) % 5, theirs(out.in), "all-gather, first exchange: rank %d sends chunk r + 1", r);
        is_uint((uint64_t)r, theirs(in.out), "all-gather, first exchange: rank %d gets chunk r", r);
        is_uint((uint64_t)r, out.out, "rank %d finishes its own chunk", r);
    }
    while (five(0, row, HP_ALLREDUCE).flags & HP_STEP_SEND)
        row++;
    is_uint(8, row, "two phases of n - 1 exchanges");
}

static void
test_primitives(void)
{
    int right = 1;
    for (int row = 0; row <= 8; row++) {
        int wanted = row == 0   ? HP_STEP_LOAD | HP_STEP_SEND
                     : row < 4  ? HP_STEP_RECV | HP_STEP_REDUCE | HP_STEP_SEND
                     : row == 4 ? HP_STEP_RECV | HP_STEP_REDUCE | HP_STEP_DIVIDE | HP_STEP_COPY | HP_STEP_SEND
                     : row < 8  ? HP_STEP_RECV | HP_STEP_COPY | HP_STEP_SEND
                                : HP_STEP_RECV | HP_STEP_COPY;
        for (int r = 0; r < 5; r++)
            right &= case_int(wanted, five(r, (uint64_t)row, HP_ALLREDUCE).flags, "row %d of rank %d: flags", row, r);
    }
    ok(right, "the rows are send, recvReduceSend, recvReduceCopySend, recvCopySend, recv");
    is_uint(2, five(2, 4, HP_REDUCE_SCATTER).in, "reduce_scatter ends with the rank's own block");
    is_uint(2, five(2, 0, HP_ALLGATHER).out, "allgather begins with it");
}

/* Part i of one rank's vector, after each round, is of as many ranks as were added to it, step by step. */
static void
test_halves_ranks(void)
{
    static uint32_t ranks[1000];
    int right = 1;
    for (int n = 2; n <= 1000; n++) {
        uint64_t held = (uint64_t)n;
        for (int i = 0; i < n; i++)
            ranks[i] = 1;
        for (uint32_t round = 1; held > 1; round++) {
            uint64_t kept = (held + 1) / 2;
            for (uint64_t i = kept; i < held; i++)
                ranks[i - kept] += ranks[i];
            held = kept;
            for (uint64_t i = 0; i < held && (n < 70 || i < 3); i++)
                right &= case_int(ranks[i], hp_halves_ranks(n, round, i), "%d ranks, round %u: ranks in part %d", n,
                                  round, (int)i);
        }
        right &= case_int(n, ranks[0], "%d ranks, after all rounds: ranks in part 0", n);
    }
    ok(right, "halves: how many ranks are in each part, up to 1000 ranks");
}

static void
test_pair_distances(void)
{
    int right = 1;
    for (int n = 2; n <= 64; n++) {
        uint64_t seen = 0;
        for (uint32_t k = 0; k + 1 < (uint32_t)n; k++) {
            int d = hp_pair_distance(n, k);
            right &= case_ok(d >= 1 && d < n && !(seen >> d & 1), "%d ranks, exchange %u: distance %d", n, k, d);
            right &=
                case_ok(k % 2 == 0 || d == n - hp_pair_distance(n, k - 1),
                        "%d ranks, exchange %u: distance %d after %d", n, k, d, k ? hp_pair_distance(n, k - 1) : 0);
            seen |= UINT64_C(1) << (d & 63);
        }
    }
    ok(right, "alltoall visits every distance once, d and n - d in turn");
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    tap_seed();
    test_tables();
    test_primitives();
    test_pair_distances();
    test_halves_ranks();
    test_laws();
    test_first_frames();
    test_bytes();
    test_other_bytes();
    return tap_failures() != 0;
}
