/* SPDX-License-Identifier: MIT */
/*
 * schedule: the row tables. n ranks, position r; chunk numbers are positions, the chunk of row j is (r - 1 - j) mod n.
 * Each row is S slices; step i = (loop * rows + row) * S + slice. S is 1 everywhere but in the ring.
 *
 * RING, one loop of an allreduce:
 *     row 0               LOAD SEND                      send
 *     rows 1 ... n-2      RECV REDUCE SEND               recvReduceSend
 *     row n-1             RECV REDUCE DIVIDE COPY SEND   recvReduceCopySend
 *     rows n ... 2n-3     RECV COPY SEND                 recvCopySend
 *     row 2n-2            RECV COPY                      recv
 *   reduce_scatter: rows 0 ... n-1, the last without SEND. allgather: rows n-1 ... 2n-2, the first as a send of the
 *   own block. Where counts differ (reduce_scatterv, allgatherv) the largest block has these rows, and a shorter one
 *   ends earlier: its further slices are empty, and no frame carries them.
 * CHAIN_OUT, p = (r - root) mod n, slice k at step k + p:
 *     p = 0 LOAD COPY SEND, then RECV COPY SEND, p = n-1 RECV COPY.
 * CHAIN_IN, the root counted as p = n, slice k at step k + p - 1:
 *     p = 1 LOAD SEND, then RECV REDUCE SEND, the root RECV REDUCE DIVIDE COPY.
 * GATHER, p as in CHAIN_IN:
 *     row 0 LOAD SEND (own block), rows j = 1 ... p-1 RECV SEND (block of p - j); the root COPYs instead of sending.
 * SCATTER, p as in CHAIN_OUT: the root sends block n-1-j in row j;
 *     p receives block n-1-k in row k + p, k = 0 ... n-1-p, and sends it on, except its own, which it COPYs (row n-1).
 * PAIRS: row j sends the block for the rank D(j) further (j < n-1) and receives the one from D(j-1) back (j > 0).
 *     D = 1, n-1, 2, n-2 ...: distances d and n-d are exchanges with one partner, so in place works block by block.
 * SPREAD (Bruck et al., "Efficient algorithms for all-to-all communications", IEEE TPDS 8, 1997):
 *     row k sends the first min(2^k, n - 2^k) vectors of the stage 2^k further; in the end all n are there.
 * DOUBLING (recursive doubling: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in
 *     MPICH", IJHPCA 19, 2005), n = 2^L. Area 0 of the stage is the rank's own vector; the partner of round k is the
 *     position with bit k turned round, area k goes there, and what comes is added to area k and becomes area k + 1; the
 *     last sum goes to recvbuf. The lower position's sum is the left operand, so that all ranks compute the same bits.
 *     Row j sends in round j, the next row receives; row 0 loads. Partners share a connection (HP_STEP_EXCHANGE) that no
 *     other algorithm uses, and nobody announces: see schedule.h. Two ranks send long vectors over their ring instead.
 * HALVES (Traff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", 2024), L = ceil(log2 n), skips
 *     s(k) = ceil(n / 2^k). The vector lies in the stage as parts R[i] = part (r + i) mod n. Row 0 loads, announces;
 *     row k = 1 ... L sends R[s(k) ... s(k-1)-1] s(k) further, the next row adds it to R[0 ...]; so row L+1 completes
 *     part r, B[0]. Rows L+1 ... 2L send B[0 ...] on over the skips in reverse, B[i] = part (r - i) mod n.
 * ALL-PAIRS: reductions in rank order. Position q owns part q of each block, and sums it when it has it from all ranks.
 *     S = n - 1: step k of a row deals with the ranks D(k) further and D(k) back, as in PAIRS.
 *     allreduce, reduce: row 2t     LOAD SEND: each owner its part of block t      RECV COPY: results of block t - 2
 *                        row 2t + 1 RECV: the own part of block t, from all        SEND: the own result of block t - 1
 *       The last step of row 2t + 1 sums the part of block t: REDUCE DIVIDE, and COPY if the result goes to recvbuf.
 *       Of a reduce only the root gets results.
 *     reduce_scatter: row t LOAD SEND: block t; RECV: the own part of block t - 1, which the last step sums.
 *   The stage has rooms for a part each: two for own results, of even blocks and of odd ones, then S for the parts to be
 *   summed, by distance, and S more in a reduce_scatter, where the next row brings those of the next block. Behind them are
 *   n slots, for what is given and for results, where elements are converted or the host cannot address the user's memory. A
 *   window of S + 1 steps keeps every room until its last reader has retired.
 *
 * In the chains, GATHER and SCATTER a rank whose row 0 has nothing to send announces itself with an empty frame.
 */
#include "lib/schedule.h"

#include "lib/levels.h"

typedef struct range {
    uint64_t at, count;
} range;

static int
wrap(int64_t position, int n)
{
    int64_t m = position % n;
    return (int)(m < 0 ? m + n : m);
}

static range
part(uint64_t total, uint64_t parts, uint64_t k, uint32_t grain)
{
    uint64_t at = hp_cut(total, parts, k, grain);
    return (range){at, hp_cut(total, parts, k + 1, grain) - at};
}

static range
inner(range outer, uint64_t parts, uint64_t k, uint32_t grain)
{
    range r = part(outer.count, parts, k, grain);
    return (range){outer.at + r.at, r.count};
}

/* Slice `slice` of `slices` of chunk `chunk` in loop `loop`, from the vector's (blocked: the block's) first element. */
static range
slice_of(const hp_plan *plan, uint64_t loop, int chunk, uint32_t slices, uint32_t slice)
{
    range r = part(plan->count, plan->loops, loop, plan->grain);
    if (!plan->block)
        r = inner(r, (uint64_t)plan->size, (uint64_t)chunk, plan->grain);
    r = inner(r, slices, slice, plan->grain);
    r.at += plan->begin;
    return r;
}

/* Where a rank's block begins in the larger array. */
static uint64_t
block_at(const hp_plan *plan, int rank)
{
    return plan->blocks ? plan->blocks[rank].at : plan->block * (uint64_t)rank;
}

/* What a slice of the largest block is of a rank's own block: it may have ended before. */
static range
shortened(const hp_plan *plan, range r, int rank)
{
    uint64_t begin, count = hp_plan_share(plan, plan->blocks[rank].count, &begin), at = r.at - plan->begin;
    if (at >= count)
        return (range){begin + count, 0};
    return (range){begin + at, r.count < count - at ? r.count : count - at};
}

/* Drops empty transfers, except the announcement, so that both sides agree on which frames exist. */
static hp_step
finish(hp_step step, const hp_plan *plan, uint64_t i)
{
    int first = i == 0, second = i == plan->slices && plan->size > 1;
    if (!first && step.send_count == 0)
        step.flags &= (uint16_t) ~(HP_STEP_SEND | HP_STEP_LOAD);
    if (!second && step.recv_count == 0)
        step.flags &= (uint16_t) ~(HP_STEP_RECV | HP_STEP_REDUCE);
    if (first) {
        step.flags |= HP_STEP_SEND;
        step.to = 1;
        step.send_first = 1;
    }
    if (second) {
        step.flags |= HP_STEP_RECV;
        step.from = 1;
        step.recv_first = 1;
    }
    return step;
}

static hp_step
ring_step(const hp_plan *plan, const int *order, int position, uint64_t i)
{
    int n = plan->size;
    uint32_t slice = (uint32_t)(i % plan->slices), row = (uint32_t)(i / plan->slices % plan->rows);
    uint64_t loop = i / plan->slices / plan->rows;
    /* allgather is the second half of the table: its row 0 is the table's row n-1 as a plain send */
    int gathers = plan->kind == HP_ALLGATHER || plan->kind == HP_ALLGATHERV;
    uint32_t j = gathers ? row + (uint32_t)n - 1 : row;
    int chunk = wrap((int64_t)position - 1 - (int64_t)j, n), last = row == plan->rows - 1;
    range r = slice_of(plan, loop, chunk, plan->slices, slice);
    if (plan->blocks)
        r = shortened(plan, r, order[chunk]);
    hp_step step = {.from = 1, .to = 1, .in = r.at, .out = r.at};
    step.recv_count = row > 0 ? r.count : 0;
    step.send_count = last ? 0 : r.count;
    if (row == 0)
        step.flags = HP_STEP_LOAD | HP_STEP_SEND;
    else
        step.flags = (uint16_t)(HP_STEP_RECV | (j < (uint32_t)n ? HP_STEP_REDUCE : 0) | (last ? 0 : HP_STEP_SEND));
    if (j >= (uint32_t)n - 1)
        step.flags |= HP_STEP_COPY;
    if (j == (uint32_t)n - 1 && row > 0)
        step.flags |= HP_STEP_DIVIDE;
    step.came = j;
    step.had = 1;
    if (gathers)
        step.out += block_at(plan, order[chunk]);
    else if (plan->kind != HP_ALLREDUCE)
        step.in += block_at(plan, order[chunk]);
    return step;
}

/* What the first rank of a chain does with each part, those between, and the last one. */
typedef struct chain {
    uint16_t head, middle, tail;
} chain;

static const chain copying = {HP_STEP_LOAD | HP_STEP_COPY | HP_STEP_SEND, HP_STEP_RECV | HP_STEP_COPY | HP_STEP_SEND,
                              HP_STEP_RECV | HP_STEP_COPY},
                   reducing = {HP_STEP_LOAD | HP_STEP_SEND, HP_STEP_RECV | HP_STEP_REDUCE | HP_STEP_SEND,
                               HP_STEP_RECV | HP_STEP_REDUCE | HP_STEP_DIVIDE | HP_STEP_COPY};

static hp_step
chain_step(const hp_plan *plan, int p, int first, const chain *flags, uint64_t i)
{
    hp_step step = {.from = 1, .to = 1};
    uint64_t k = i - (uint64_t)(p - first);
    int last = first + plan->size - 1;
    if (i < (uint64_t)(p - first) || k >= plan->loops)
        return step;
    range r = part(plan->count, plan->loops, k, plan->grain);
    step.in = step.out = plan->begin + r.at;
    step.recv_count = p > first ? r.count : 0;
    step.send_count = p < last ? r.count : 0;
    step.flags = p == first ? flags->head : p == last ? flags->tail : flags->middle;
    step.came = (uint32_t)(p - first);
    step.had = 1;
    return step;
}

static hp_step
gather_step(const hp_plan *plan, const int *order, int position, int p, uint64_t i)
{
    int n = plan->size;
    uint64_t j = i % plan->rows;
    range r = part(plan->count, plan->loops, i / plan->rows, plan->grain);
    hp_step step = {.from = 1, .to = 1, .in = plan->begin + r.at};
    if (p == 0 && j == 0) {
        step.flags = HP_STEP_OWN;
        step.own.in = step.in;
        step.own.out = plan->block * (uint64_t)order[position] + step.in;
        step.own.count = r.count;
        return step;
    }
    if (p == 0)
        p = n;
    if (j >= (uint64_t)p)
        return step;
    step.recv_count = j > 0 ? r.count : 0;
    step.send_count = p < n ? r.count : 0;
    step.flags = (uint16_t)(j > 0 ? HP_STEP_RECV : HP_STEP_LOAD) | (uint16_t)(p < n ? HP_STEP_SEND : HP_STEP_COPY);
    step.out = plan->block * (uint64_t)order[wrap(position - (int64_t)j, n)] + step.in;
    return step;
}

static hp_step
scatter_step(const hp_plan *plan, const int *order, int position, int p, uint64_t i)
{
    int n = plan->size;
    uint64_t j = i % plan->rows, k = j - (uint64_t)p;
    range r = part(plan->count, plan->loops, i / plan->rows, plan->grain);
    hp_step step = {.from = 1, .to = 1, .out = plan->begin + r.at};
    if (j < (uint64_t)p)
        return step;
    int own = j == (uint64_t)n - 1;
    if (p == 0 && own) {
        step.flags = HP_STEP_OWN;
        step.own.in = plan->block * (uint64_t)order[position] + step.out;
        step.own.out = step.out;
        step.own.count = r.count;
        return step;
    }
    step.in = plan->block * (uint64_t)order[wrap((int64_t)position - p + n - 1 - (int64_t)k, n)] + step.out;
    step.recv_count = p > 0 ? r.count : 0;
    step.send_count = own ? 0 : r.count;
    step.flags = (uint16_t)(p > 0 ? HP_STEP_RECV : HP_STEP_LOAD) | (uint16_t)(own ? HP_STEP_COPY : HP_STEP_SEND);
    return step;
}

int
hp_pair_distance(int size, uint32_t k)
{
    return k % 2 == 0 ? (int)k / 2 + 1 : size - ((int)k + 1) / 2;
}

static hp_step
pairwise_step(const hp_plan *plan, const int *order, int position, uint64_t i)
{
    int n = plan->size, me = order[position];
    uint64_t j = i % plan->rows, loop = i / plan->rows;
    range r = part(plan->count, plan->loops, loop, plan->grain);
    uint64_t at = plan->begin + r.at;
    hp_step step = {0};
    if (j < (uint64_t)n - 1) {
        step.to = hp_pair_distance(n, (uint32_t)j);
        step.flags |= HP_STEP_LOAD | HP_STEP_SEND;
        step.send_count = r.count;
        step.send_first = loop == 0;
        step.in = plan->block * (uint64_t)order[wrap(position + (int64_t)step.to, n)] + at;
    }
    if (j > 0) {
        step.from = hp_pair_distance(n, (uint32_t)j - 1);
        step.flags |= HP_STEP_RECV | HP_STEP_COPY;
        step.recv_count = r.count;
        step.recv_first = loop == 0;
        step.out = plan->block * (uint64_t)order[wrap(position - (int64_t)step.from, n)] + at;
    }
    if (j == 0) {
        step.flags |= HP_STEP_OWN;
        step.own.in = step.own.out = plan->block * (uint64_t)me + at;
        step.own.count = r.count;
    }
    return step;
}

/* Vectors that travel in round k of the spread. */
static uint64_t
spread_vectors(int n, uint32_t k)
{
    uint64_t held = UINT64_C(1) << k, missing = (uint64_t)n - held;
    return held < missing ? held : missing;
}

static hp_step
spread_step(const hp_plan *plan, uint64_t i)
{
    uint32_t k = (uint32_t)i;
    hp_step step = {.flags = HP_STEP_STAGED};
    if (k < plan->rows - 1) {
        step.flags |= HP_STEP_SEND;
        step.to = 1 << k;
        step.send_count = spread_vectors(plan->size, k) * plan->count;
        step.send_first = 1;
    }
    if (k == 0)
        step.flags |= HP_STEP_LOAD;
    if (k > 0) {
        step.flags |= HP_STEP_RECV;
        step.from = 1 << (k - 1);
        step.recv_count = spread_vectors(plan->size, k - 1) * plan->count;
        step.recv_first = 1;
        step.stage_recv = (uint64_t)step.from * plan->count;
    }
    if (k == plan->rows - 1)
        step.flags |= HP_STEP_REDUCE | HP_STEP_DIVIDE | HP_STEP_COPY;
    return step;
}

static hp_step
doubling_step(const hp_plan *plan, int position, uint64_t i)
{
    int n = plan->size, rounds = (int)hp_plan_rounds(n), sends = (int)i, receives = sends - 1;
    hp_step step = {.flags = (uint16_t)(HP_STEP_STAGED | (i == 0 ? HP_STEP_LOAD : 0))};
    if (plan->exchanges)
        step.flags |= HP_STEP_EXCHANGE;
    if (sends < rounds) {
        int distance = 1 << sends;
        step.flags |= HP_STEP_SEND;
        step.to = position & distance ? n - distance : distance;
        step.send_count = plan->count;
        step.send_first = 1;
        step.stage_send = (uint64_t)sends * plan->count;
    }
    if (receives >= 0) {
        int distance = 1 << receives, left = position & distance;
        step.flags |= (uint16_t)(HP_STEP_RECV | HP_STEP_REDUCE | (left ? HP_STEP_LEFT : 0));
        step.from = left ? distance : n - distance;
        step.recv_count = plan->count;
        step.recv_first = 1;
        step.stage_recv = (uint64_t)(receives + 1) * plan->count;
        step.came = step.had = 1U << receives;
    }
    if (i == plan->rows - 1)
        step.flags |= HP_STEP_DIVIDE | HP_STEP_COPY;
    return step;
}

/* The part of an owner, at its position, in a block. */
static hp_own
owned(const hp_plan *plan, const int *order, uint64_t block, int owner)
{
    range r = slice_of(plan, block, owner, 1, 0);
    if (plan->blocks)
        r = shortened(plan, r, order[owner]);
    return (hp_own){plan->block ? r.at + block_at(plan, order[owner]) : r.at, r.at, r.count};
}

static hp_step
allpairs_step(const hp_plan *plan, const int *order, int position, uint64_t i)
{
    uint64_t s = plan->slices, row = i / s, k = i % s, none = plan->loops;
    int distance = hp_pair_distance(plan->size, (uint32_t)k);
    int to = wrap((int64_t)position + distance, plan->size), from = wrap((int64_t)position - distance, plan->size);
    int gathers = plan->kind == HP_ALLREDUCE || plan->kind == HP_REDUCE, odd = row % 2 == 1;
    /* blocks; what is below 0 wraps round and is none, too */
    uint64_t given = gathers ? (odd ? none : row / 2) : row, taken = gathers ? (odd ? row / 2 : none) : row - 1;
    uint64_t handed = gathers && odd ? row / 2 - 1 : none, collected = gathers && !odd ? row / 2 - 2 : none;
    uint64_t summed = k == s - 1 ? taken : none, vectors = gathers ? 2 : 2 + taken % 2 * s;
    hp_step step = {.flags = HP_STEP_STAGED, .from = distance, .to = distance};
    if (given < plan->loops) {
        hp_own part = owned(plan, order, given, to);
        step.flags |= part.count > 0 || i == 0 ? HP_STEP_LOAD | HP_STEP_SEND : 0;
        step.in = part.in;
        step.send_count = part.count;
        step.send_first = given == 0;
    }
    if (handed < plan->loops && (plan->kind == HP_ALLREDUCE || to == plan->root)) {
        hp_own part = owned(plan, order, handed, position);
        step.flags |= part.count > 0 ? HP_STEP_SEND : 0;
        step.out = part.out;
        step.send_count = part.count;
        step.send_first = handed == 0 && k > 0 && owned(plan, order, 0, to).count == 0;
        step.stage_send = handed % 2 * plan->part;
    }
    if (taken < plan->loops) {
        hp_own part = owned(plan, order, taken, position);
        step.flags |= part.count > 0 || i == s ? HP_STEP_RECV : 0;
        step.recv_count = part.count;
        step.recv_first = taken == 0;
        step.stage_recv = (vectors + (uint64_t)distance - 1) * plan->part;
    }
    if (collected < plan->loops && (plan->kind == HP_ALLREDUCE || position == plan->root)) {
        hp_own part = owned(plan, order, collected, from);
        step.flags |= part.count > 0 ? HP_STEP_RECV | HP_STEP_COPY : 0;
        step.out = part.out;
        step.recv_count = part.count;
        step.recv_first = collected == 0 && k > 0 && owned(plan, order, 0, position).count == 0;
    }
    if (summed < plan->loops) {
        step.own = owned(plan, order, summed, position);
        if (step.own.count > 0)
            step.flags |= HP_STEP_REDUCE | HP_STEP_DIVIDE;
        if (step.own.count > 0 && (plan->kind != HP_REDUCE || position == plan->root))
            step.flags |= HP_STEP_COPY;
        step.stage_into = summed % 2 * plan->part;
        step.stage_sum = (vectors - 1) * plan->part;
    }
    return step;
}

static uint64_t
skip(int n, uint32_t k)
{
    return ((uint64_t)n + (UINT64_C(1) << k) - 1) >> k;
}

uint32_t
hp_halves_ranks(int size, uint32_t round, uint64_t i)
{
    uint64_t added = i + skip(size, round);
    if (round == 0)
        return 1;
    return hp_halves_ranks(size, round - 1, i) +
           (added < skip(size, round - 1) ? hp_halves_ranks(size, round - 1, added) : 0);
}

static hp_step
halves_send(const hp_plan *plan, hp_step step, uint32_t row, uint32_t rounds)
{
    int n = plan->size;
    uint32_t k = row <= rounds ? row : 2 * rounds + 1 - row; /* the skip's number, 1 ... L and back */
    step.flags |= HP_STEP_SEND;
    step.to = (int)skip(n, k);
    step.send_count = (skip(n, k - 1) - skip(n, k)) * plan->part;
    step.stage_send = (row <= rounds ? skip(n, k) : 2 * (uint64_t)n - 1) * plan->part;
    step.send_first = row <= rounds && step.to != 1;
    return step;
}

/* What halves_send sent in the row before, at its receiver. */
static hp_step
halves_receive(const hp_plan *plan, hp_step step, uint32_t row, uint32_t rounds)
{
    uint64_t n = (uint64_t)plan->size;
    uint32_t before = row - 1, k = before <= rounds ? before : 2 * rounds + 1 - before;
    step.flags |= HP_STEP_RECV;
    step.from = (int)skip(plan->size, k);
    step.recv_count = (skip(plan->size, k - 1) - skip(plan->size, k)) * plan->part;
    step.recv_first = before <= rounds && step.from != 1;
    if (before > rounds) {
        step.stage_recv = (2 * n - 1 + skip(plan->size, k)) * plan->part;
        return step;
    }
    step.flags |= HP_STEP_REDUCE;
    step.round = k;
    step.stage_recv = (2 * n - skip(plan->size, k - 1)) * plan->part;
    step.stage_into = row == rounds + 1 ? (2 * n - 1) * plan->part : 0;
    if (row == rounds + 1)
        step.flags |= HP_STEP_DIVIDE;
    return step;
}

static hp_step
halves_step(const hp_plan *plan, int position, uint64_t i)
{
    uint32_t row = (uint32_t)i, rounds = hp_plan_rounds(plan->size);
    hp_step step = {.flags = HP_STEP_STAGED};
    if (row == 0) {
        uint64_t first = (uint64_t)position * plan->part;
        step.flags |= HP_STEP_LOAD;
        step.in = first < plan->count ? first : plan->count; /* from here to the end, then from the beginning to here */
        step.stage_into = (uint64_t)plan->size * plan->part - first;
        return step;
    }
    if (row <= 2 * rounds)
        step = halves_send(plan, step, row, rounds);
    if (row > 1)
        step = halves_receive(plan, step, row, rounds);
    if (row == plan->rows - 1)
        step.flags |= HP_STEP_COPY | HP_STEP_GATHERED;
    return step;
}

static hp_step
local_step(const hp_plan *plan)
{
    hp_step step = {.flags = HP_STEP_OWN};
    step.own.in = step.own.out = plan->begin;
    step.own.count = plan->blocks ? plan->blocks[0].count : plan->count;
    if (plan->kind == HP_ALLGATHERV)
        step.own.out = plan->blocks[0].at;
    if (plan->kind == HP_REDUCE_SCATTERV)
        step.own.in = plan->blocks[0].at;
    return step;
}

hp_step
hp_schedule_at(const hp_plan *plan, const int *order, int position, uint64_t i)
{
    int p;
    switch (plan->algorithm) {
    case HP_ALG_LOCAL: return local_step(plan);
    case HP_ALG_SPREAD: return spread_step(plan, i);
    case HP_ALG_DOUBLING: return doubling_step(plan, position, i);
    case HP_ALG_HALVES: return finish(halves_step(plan, position, i), plan, i);
    case HP_ALG_PAIRWISE: return finish(pairwise_step(plan, order, position, i), plan, i);
    case HP_ALG_ALLPAIRS: return allpairs_step(plan, order, position, i);
    case HP_ALG_LEVELS: return hp_levels_step(plan, order, position, i);
    case HP_ALG_RING: return finish(ring_step(plan, order, position, i), plan, i);
    default: break;
    }
    p = wrap((int64_t)position - plan->root, plan->size); /* 0 for the root itself */
    if (plan->algorithm == HP_ALG_CHAIN_OUT)
        return finish(chain_step(plan, p, 0, &copying, i), plan, i);
    if (plan->algorithm == HP_ALG_CHAIN_IN)
        return finish(chain_step(plan, p ? p : plan->size, 1, &reducing, i), plan, i);
    if (plan->algorithm == HP_ALG_GATHER)
        return finish(gather_step(plan, order, position, p, i), plan, i);
    return finish(scatter_step(plan, order, position, p, i), plan, i);
}
