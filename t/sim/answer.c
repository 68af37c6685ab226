/* SPDX-License-Identifier: MIT */
/*
 * answer: what every collective must deliver, computed element by element from the definition, for every type and
 * operation: to the bit where the bits are defined, else within what hoop_allreduce(3) allows. Shares nothing with the
 * library but the call's struct and the types' sizes.
 */
#include "base/dtype.h"
#include "t/gpu/reference.h"
#include "t/sim/blocks.h"
#include "t/sim/sim.h"
#include "t/tap/tap.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The blocks of a call that has counts, and the elements that they span on this rank. */
typedef struct layout {
    hp_block blocks[SIM_RANKS_MAX];
    int size;
    uint64_t span;
} layout;

static layout
layout_of(const hp_call *call, int rank, int size)
{
    layout l = {.size = size};
    if (hp_kind_has_counts(call->kind))
        l.span = sim_blocks(l.blocks, call, rank, size);
    return l;
}

/* An element's number in the data of a rank that has all blocks, wherever it has them. */
static uint64_t
number_of(int block, uint64_t i)
{
    return (uint64_t)block << 24 | i;
}

uint64_t
sim_send_count(const hp_call *call, int rank, int size)
{
    uint64_t all = call->count * (uint64_t)size;
    layout l = layout_of(call, rank, size);
    switch ((hp_kind)call->kind) {
    case HP_ALLGATHERV: return l.blocks[rank].count;
    case HP_REDUCE_SCATTERV: return l.span;
    case HP_REDUCE_SCATTER:
    case HP_ALLTOALL: return all;
    case HP_BROADCAST: return rank == call->root ? call->count : 0;
    case HP_SCATTER: return rank == call->root ? all : 0;
    default: return call->count;
    }
}

uint64_t
sim_recv_count(const hp_call *call, int rank, int size)
{
    uint64_t all = call->count * (uint64_t)size;
    layout l = layout_of(call, rank, size);
    switch ((hp_kind)call->kind) {
    case HP_ALLGATHERV: return l.span;
    case HP_REDUCE_SCATTERV: return l.blocks[rank].count;
    case HP_ALLGATHER:
    case HP_ALLTOALL: return all;
    case HP_REDUCE: return rank == call->root ? call->count : 0;
    case HP_GATHER: return rank == call->root ? all : 0;
    default: return call->count;
    }
}

static uint64_t
made_of(uint64_t seed, int rank, uint64_t i)
{
    return tap_mix(seed ^ (uint64_t)rank << 40 ^ i);
}

/* Of an integer or a bool: any bits, but half of the bools are 0. */
static uint64_t
whole(const hp_call *call, uint64_t seed, int rank, uint64_t i)
{
    size_t bits = 8 * hp_dtype_size((hoop_dtype)call->dtype);
    uint64_t random = made_of(seed, rank, i);
    if (call->dtype == HOOP_BOOL)
        return random >> 32 & 1 ? 0 : random & 0xff;
    return bits == 64 ? random : random & ((UINT64_C(1) << bits) - 1);
}

/* Of a float32 or float64: between 0.5 and 1.5, so that products stay in range and sums do not cancel. */
static float
broken(uint64_t seed, int rank, uint64_t i)
{
    return 0.5F + (float)(made_of(seed, rank, i) >> 40) / 16777216.0F;
}

static double
broken64(uint64_t seed, int rank, uint64_t i)
{
    return 0.5 + (double)(made_of(seed, rank, i) >> 11) / 9007199254740992.0;
}

static int
is_narrow(const hp_call *call)
{
    return call->dtype == HOOP_FLOAT16 || (call->dtype >= HOOP_BFLOAT16 && call->dtype <= HOOP_FLOAT8E5M2);
}

/* Bits of precision, and 2^-denormal is half of the smallest number. */
typedef struct narrow {
    int precision, denormal;
    double largest;
} narrow;

static narrow
narrow_of(const hp_call *call)
{
    switch (call->dtype) {
    case HOOP_FLOAT16: return (narrow){11, 25, 65504};
    case HOOP_BFLOAT16: return (narrow){8, 134, 3.3895313892515355e38};
    case HOOP_FLOAT8E4M3: return (narrow){4, 10, 448};
    default: return (narrow){3, 17, 57344};
    }
}

/*
 * Of 16- and 8-bit floats whose bits depend on the order in which ranks are combined: small whole numbers, of which every
 * operation gives an exact result on up to eight ranks. Of a product one factor is 2.
 */
static int
is_small(const hp_call *call)
{
    return is_narrow(call) && hp_kind_reduces(call->kind) && call->op != HOOP_AVG && !call->ordered;
}

static int
small(const hp_call *call, uint64_t seed, int rank, uint64_t i)
{
    uint64_t random = made_of(seed, rank, i);
    switch ((hoop_op)call->op) {
    case HOOP_PROD: return tap_mix(seed ^ i) % 8 == (uint64_t)rank ? 2 : 1;
    case HOOP_SUM: return (int)(random % 2);
    default: return (int)(random % 4);
    }
}

static int
combined_small(const hp_call *call, uint64_t seed, int size, uint64_t i)
{
    int all = small(call, seed, 0, i);
    for (int r = 1; r < size; r++) {
        int v = small(call, seed, r, i);
        switch ((hoop_op)call->op) {
        case HOOP_PROD: all *= v; break;
        case HOOP_MAX: all = v > all ? v : all; break;
        case HOOP_MIN: all = v < all ? v : all; break;
        default: all += v; break;
        }
    }
    return all;
}

/* Numbers whose sum overflows, whose n-th part underflows, all kinds of magnitudes; NaN and infinity on rank 0. */
static uint32_t
narrow_made(const hp_call *call, uint64_t seed, int rank, uint64_t i)
{
    uint64_t random = made_of(seed, rank, i);
    narrow n = narrow_of(call);
    if (is_small(call))
        return ref_encode((hoop_dtype)call->dtype, small(call, seed, rank, i));
    double value = (double)(random % 1001) / 500 - 1;
    switch (tap_mix(seed ^ ~i) % 9) {
    case 0: value = n.largest; break;
    case 1: value = ldexp(1, 1 - n.denormal); break;
    case 2: value = 0.05; break;
    case 3: value *= n.largest; break;
    case 4: value = ldexp(floor(8 * value), 1 - n.denormal); break;
    case 5: value = ldexp(value, (int)(random >> 32) % 12 - 6); break;
    case 6: value = fabs(value) / 2 + 1; break;
    case 7: value = rank == 0 && i % 4 == 0 ? (double)NAN : value; break;
    default: value = value + 1; break;
    }
    if (rank == 0 && i % 97 == 5 && call->dtype == HOOP_FLOAT8E5M2)
        return 0x7c;
    return ref_encode((hoop_dtype)call->dtype, rank == 0 && i % 97 == 5 ? (double)INFINITY : value);
}

/* Rounding by search takes long, and every rank asks for every rank's elements: they repeat after PERIOD, a prime, and
 * are kept. */
enum { PERIOD = 4099 };

static uint32_t
narrow_element(const hp_call *call, uint64_t seed, int rank, uint64_t i)
{
    enum { RANKS = 16 };
    static _Thread_local struct {
        uint64_t key;
        uint32_t element;
    } kept[RANKS][PERIOD];
    uint64_t key = tap_mix(tap_mix(seed) + call->dtype + (is_small(call) ? 256 + (uint64_t)call->op : 0)) | 1;
    i %= PERIOD;
    if (rank >= RANKS)
        return narrow_made(call, seed, rank, i);
    if (kept[rank][i].key != key) {
        kept[rank][i].key = key;
        kept[rank][i].element = narrow_made(call, seed, rank, i);
    }
    return kept[rank][i].element;
}

/* Of all ranks' elements i: their sum, the least and the greatest. */
typedef struct range {
    uint64_t key;
    double sum, low, high;
} range;

static range
narrow_range(const hp_call *call, uint64_t seed, int size, uint64_t i)
{
    static _Thread_local range kept[PERIOD];
    range *all = &kept[i % PERIOD], made = {.low = (double)INFINITY, .high = -(double)INFINITY};
    made.key = tap_mix(tap_mix(seed) + call->dtype + ((uint64_t)size << 32)) | 1;
    if (all->key == made.key)
        return *all;
    for (int r = 0; r < size; r++) {
        double v = ref_decode((hoop_dtype)call->dtype, narrow_element(call, seed, r, i));
        made.sum += v;
        made.low = v < made.low ? v : made.low;
        made.high = v > made.high ? v : made.high;
    }
    return *all = made;
}

/* A mean as the manual promises it: off by J times max(u S, eta) at most, and between the least and the greatest. */
static int
is_mean(const hp_call *call, uint64_t seed, int size, uint64_t i, double got)
{
    narrow n = narrow_of(call);
    range all = narrow_range(call, seed, size, i);
    double joins = (size + 1) / 2.0 - 1.0 / size;
    if (isnan(all.sum) || isinf(all.sum))
        return isnan(all.sum) ? isnan(got) : got == all.sum;
    double most = fmax(ldexp(fmax(fabs(all.low), fabs(all.high)), -n.precision), ldexp(1, -n.denormal));
    return got >= all.low && got <= all.high && fabs(got - all.sum / size) <= 1.001 * joins * most;
}

static void
fill(const hp_call *call, uint64_t seed, int rank, uint64_t number, void *send, uint64_t i)
{
    if (is_narrow(call))
        ref_put((hoop_dtype)call->dtype, send, i, narrow_element(call, seed, rank, number));
    else if (call->dtype == HOOP_FLOAT32)
        ((float *)send)[i] = broken(seed, rank, number);
    else if (call->dtype == HOOP_FLOAT64)
        ((double *)send)[i] = broken64(seed, rank, number);
    else
        ref_put((hoop_dtype)call->dtype, send, i, whole(call, seed, rank, number));
}

void
sim_fill(const hp_call *call, uint64_t seed, int rank, int size, void *send)
{
    layout l = layout_of(call, rank, size);
    uint64_t count = sim_send_count(call, rank, size);
    if (call->kind != HP_REDUCE_SCATTERV)
        for (uint64_t i = 0; i < count; i++)
            fill(call, seed, rank, i, send, i);
    for (int b = 0; b < size && call->kind == HP_REDUCE_SCATTERV; b++)
        for (uint64_t i = 0; i < l.blocks[b].count; i++)
            fill(call, seed, rank, number_of(b, i), send, l.blocks[b].at + i);
}

int
sim_is_gap(const hp_call *call, int rank, int size, uint64_t i)
{
    if (call->kind != HP_ALLGATHERV)
        return 0;
    layout l = layout_of(call, rank, size);
    return sim_block_at(l.blocks, size, i) < 0;
}

/* Bools are 0 or 1 then, also those of a ring of one: how many are true decides. */
static uint64_t
combined_bool(const hp_call *call, uint64_t seed, int size, uint64_t i)
{
    int trues = 0;
    for (int r = 0; r < size; r++)
        trues += whole(call, seed, r, i) != 0;
    switch ((hoop_op)call->op) {
    case HOOP_PROD:
    case HOOP_MIN:
    case HOOP_BAND: return trues == size;
    case HOOP_BXOR: return (uint64_t)trues % 2;
    default: return trues > 0;
    }
}

/* Sums and products wrap. The greater of two is that whose highest bits are, as a number with a sign if the type has one. */
static uint64_t
joined(const hp_call *call, uint64_t a, uint64_t b)
{
    hoop_dtype dtype = (hoop_dtype)call->dtype;
    unsigned unused = (unsigned)(64 - 8 * hp_dtype_size(dtype));
    uint64_t x = a << unused, y = b << unused;
    int is_signed = dtype == HOOP_INT8 || dtype == HOOP_INT16 || dtype == HOOP_INT32 || dtype == HOOP_INT64;
    int greater = is_signed ? (int64_t)x > (int64_t)y : x > y;
    switch ((hoop_op)call->op) {
    case HOOP_PROD: return x * b >> unused;
    case HOOP_MAX: return greater ? a : b;
    case HOOP_MIN: return greater ? b : a;
    case HOOP_BAND: return a & b;
    case HOOP_BOR: return a | b;
    case HOOP_BXOR: return a ^ b;
    default: return (x + y) >> unused;
    }
}

static uint64_t
combined_whole(const hp_call *call, uint64_t seed, int size, uint64_t i)
{
    uint64_t all = whole(call, seed, 0, i);
    if (call->dtype == HOOP_BOOL)
        return combined_bool(call, seed, size, i);
    for (int r = 1; r < size; r++)
        all = joined(call, all, whole(call, seed, r, i));
    return call->op == HOOP_AVG ? ref_reduce((hoop_dtype)call->dtype, HOOP_AVG, 1, all, 0, (uint32_t)size) : all;
}

static double
combined_broken(const hp_call *call, uint64_t seed, int size, uint64_t i)
{
    int wide = call->dtype == HOOP_FLOAT64;
    double all = wide ? broken64(seed, 0, i) : (double)broken(seed, 0, i);
    for (int r = 1; r < size; r++) {
        double v = wide ? broken64(seed, r, i) : (double)broken(seed, r, i);
        switch ((hoop_op)call->op) {
        case HOOP_PROD: all *= v; break;
        case HOOP_MAX: all = v > all ? v : all; break;
        case HOOP_MIN: all = v < all ? v : all; break;
        default: all += v; break;
        }
    }
    return call->op == HOOP_AVG ? all / size : all;
}

static const int *host_of;

void
sim_answer_hosts(const int *hosts)
{
    host_of = hosts;
}

static int
ranks_beside(int rank, int size)
{
    int ranks = 0;
    for (int r = 0; r < size; r++)
        ranks += host_of[r] == host_of[rank];
    return ranks;
}

/* A host's ranks go together: of an allreduce in the order of hosts, and of a reduce_scatter if all hosts have as many. */
static int
by_host(const hp_call *call, int size)
{
    if (!host_of || call->ordered != HP_ORDER_HOST)
        return 0;
    for (int r = 0; r < size && call->kind == HP_REDUCE_SCATTER; r++)
        if (ranks_beside(r, size) != ranks_beside(0, size))
            return 0;
    return call->kind == HP_ALLREDUCE || call->kind == HP_REDUCE_SCATTER;
}

static float
combined(const hp_call *call, float all, float v)
{
    switch ((hoop_op)call->op) {
    case HOOP_PROD: return all * v;
    case HOOP_MAX: return v > all || isnan(v) ? v : all;
    case HOOP_MIN: return v < all || isnan(v) ? v : all;
    default: return all + v;
    }
}

/*
 * In order every bit is known: float32 sums, one after the other, rounded once to what is narrower. Each host's sum begins at
 * its lowest rank, and these are added up; in rank order each rank is a host.
 */
static int
is_ordered(const hp_call *call, uint64_t seed, int size, uint64_t i, uint64_t got)
{
    float all = 0;
    uint32_t bits;
    for (int first = 0, groups = by_host(call, size); first < size; first++) {
        int begins = 1;
        float sum = 0;
        for (int r = 0; r < first && groups; r++)
            begins &= host_of[r] != host_of[first];
        for (int r = first; r < size && begins; r++) {
            if (r > first && (!groups || host_of[r] != host_of[first]))
                continue;
            float v = is_narrow(call) ? (float)ref_decode((hoop_dtype)call->dtype, narrow_element(call, seed, r, i))
                                      : broken(seed, r, i);
            sum = r == first ? v : combined(call, sum, v);
        }
        if (begins)
            all = first == 0 ? sum : combined(call, all, sum);
    }
    if (call->op == HOOP_AVG)
        all /= (float)size;
    if (all == 0 && (call->op == HOOP_MAX || call->op == HOOP_MIN)) /* of two zeros either is the greatest */
        return is_narrow(call) ? ref_decode((hoop_dtype)call->dtype, (uint32_t)got) == 0 : (got & 0x7fffffff) == 0;
    memcpy(&bits, &all, sizeof(bits));
    return got == (is_narrow(call) ? ref_encode((hoop_dtype)call->dtype, (double)all) : bits);
}

/* Where recvbuf[i] comes from when nothing is reduced: rank and its element. 0: it is reduced, over element *at. */
static int
is_moved(const hp_call *call, const layout *l, int me, uint64_t i, int *rank, uint64_t *at)
{
    uint64_t count = call->count;
    *rank = call->root;
    *at = i;
    switch ((hp_kind)call->kind) {
    case HP_ALLGATHER:
    case HP_GATHER: *rank = (int)(i / count), *at = i % count; return 1;
    case HP_BROADCAST: return 1;
    case HP_SCATTER: *at = count * (uint64_t)me + i; return 1;
    case HP_ALLTOALL: *rank = (int)(i / count), *at = count * (uint64_t)me + i % count; return 1;
    case HP_REDUCE_SCATTER: *at = count * (uint64_t)me + i; return 0;
    case HP_ALLGATHERV:
        *rank = sim_block_at(l->blocks, l->size, i);
        *at = *rank < 0 ? 0 : i - l->blocks[*rank].at;
        return 1;
    case HP_REDUCE_SCATTERV: *at = number_of(me, i); return 0;
    default: return 0;
    }
}

static int
element_is_right(const hp_call *call, const layout *l, uint64_t seed, int me, const void *recv, uint64_t i)
{
    int rank, size = l->size;
    uint64_t at;
    int moved = is_moved(call, l, me, i, &rank, &at);
    if (rank < 0 && moved) /* a gap */
        return 1;
    if (call->wire && !moved &&
        size > 1) /* positive numbers, each rounded to 8 or 4 bits, and perhaps their sum once more */
        return fabs((double)((const float *)recv)[i] / combined_broken(call, seed, size, at) - 1) <=
               (call->wire == HOOP_WIRE_E4M3 ? 2.1 / 16 : 2.05 / 256);
    if (call->ordered && !moved && size > 1)
        return is_ordered(call, seed, size, at, ref_get((hoop_dtype)call->dtype, recv, i));
    if (is_narrow(call)) {
        uint32_t got = (uint32_t)ref_get((hoop_dtype)call->dtype, recv, i);
        if (is_small(call))
            return got == ref_encode((hoop_dtype)call->dtype, combined_small(call, seed, size, at % PERIOD));
        return moved || size == 1 ? got == narrow_element(call, seed, moved ? rank : 0, at)
                                  : is_mean(call, seed, size, at, ref_decode((hoop_dtype)call->dtype, got));
    }
    if (call->dtype == HOOP_FLOAT32) {
        float got = ((const float *)recv)[i], same = broken(seed, rank, at);
        double wanted = moved ? 0 : combined_broken(call, seed, size, at);
        return moved ? memcmp(&got, &same, sizeof(got)) == 0 : fabs((double)got - wanted) <= 1e-6 * size * fabs(wanted);
    }
    if (call->dtype == HOOP_FLOAT64) {
        double got = ((const double *)recv)[i], wanted = moved ? 0 : combined_broken(call, seed, size, at);
        return moved ? got == broken64(seed, rank, at) : fabs(got - wanted) <= 4e-16 * size * fabs(wanted);
    }
    return ref_get((hoop_dtype)call->dtype, recv, i) ==
           (moved ? whole(call, seed, rank, at) : combined_whole(call, seed, size, at));
}

int
sim_answer_is_right(const hp_call *call, uint64_t seed, int rank, int size, const void *recv, char *why,
                    size_t why_size)
{
    layout l = layout_of(call, rank, size);
    for (uint64_t i = 0, count = sim_recv_count(call, rank, size); i < count; i++) {
        char text[100];
        if (element_is_right(call, &l, seed, rank, recv, i))
            continue;
        snprintf(why, why_size, "rank %d: element %ju of %s is wrong", rank, (uintmax_t)i,
                 hp_call_print(call, text, sizeof(text)));
        return 0;
    }
    return 1;
}
