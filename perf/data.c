/* SPDX-License-Identifier: MIT */
/*
 * data: the pattern is a pure function of seed, rank and index.
 *
 * Integers: any bits (sums and products wrap, so order does not matter), odd ones for products, small ones for the
 * mean. Bools: 0, or any other byte. Where bits or bools are joined by and or by or, all ranks but one in turn have what
 * changes nothing: otherwise every result would be the same, whichever ranks took part. Floats: whole numbers so small
 * that no partial sum needs rounding; where even ones do not fit (8-bit floats over many ranks), only some of the ranks
 * have a number other than 0, other ranks at every index. Products are of plus and minus 1, and 2 or 1/2 from three
 * ranks at most. The mean has one division, which is rounded as the library must: by float32, or float64.
 *
 * Means of 16- and 8-bit floats: the largest number from all ranks, so that sums overflow; the smallest ones, so that
 * n-th parts underflow; NaN or infinity from one rank, so that it shows where that rank was left out; any number at
 * all; and numbers close together, where the bound is narrow.
 *
 * The check walks over buffers in pieces of one period, and touches them by the functions of memory.h only.
 */
#include "perf/data.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- the pattern --- */

enum {
    LEAST_CHOICE = 3, /* a rank's number in a sum is one of at least so many */
    MEANS = 8         /* kinds of small floats' means, in turn */
};

/* splitmix64's finisher: all bits of the result depend on all bits of both. */
static uint64_t
mix(uint64_t a, uint64_t b)
{
    uint64_t z = a * UINT64_C(0x9E3779B97F4A7C15) + b + UINT64_C(0xD1B54A32D192ED03);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static uint64_t
noise(const perf_pattern *p, int rank, size_t index)
{
    return mix(mix(p->seed, (uint64_t)rank), (uint64_t)index);
}

/* Whether this rank is one of at most `limit` ranks with a number of its own at this index; *shares: how many, at most. */
static int
takes_part(const perf_pattern *p, int rank, size_t index, uint64_t limit, uint64_t *shares)
{
    uint64_t ranks = (uint64_t)p->ranks, stride = (ranks + limit - 1) / limit;
    *shares = (ranks + stride - 1) / stride;
    return ((uint64_t)rank + mix(p->seed, index)) % stride == 0;
}

/* The largest number up to which the type has all whole numbers. */
static uint64_t
exact_up_to(const perf_type *type)
{
    if (type->kind == PERF_FLOAT)
        return UINT64_C(1) << (type->fraction_bits + 1);
    return (UINT64_C(1) << (8 * type->size - 1)) - 1;
}

/* A whole number, not 0, whose sum over the ranks stays exact; 0 from ranks that take no part. */
static int64_t
modest(const perf_pattern *p, int rank, size_t index)
{
    uint64_t shares, most = p->brief ? UINT64_C(1) << p->brief : exact_up_to(p->type), bits = noise(p, rank, index);
    if (!takes_part(p, rank, index, most / LEAST_CHOICE, &shares))
        return 0;
    int64_t value = (int64_t)(1 + (bits >> 1) % (most / shares));
    return p->type->kind != PERF_UNSIGNED && bits & 1 ? -value : value;
}

static double
float_value(const perf_pattern *p, int rank, size_t index)
{
    uint64_t shares, bits = noise(p, rank, index);
    double sign = bits & 1 ? -1.0 : 1.0;
    switch (p->op) {
    case HOOP_SUM:
    case HOOP_AVG: return (double)modest(p, rank, index);
    case HOOP_PROD:
        if (!takes_part(p, rank, index, 3, &shares))
            return sign;
        return bits & 2 ? 2 * sign : sign / 2;
    default: /* to be compared or moved: not 0, so that there is one bit pattern for it */
        return sign * (double)(1 + (bits >> 1) % exact_up_to(p->type));
    }
}

/* Sign-extended from the type's width, so that numbers of every width compare alike. */
static uint64_t
narrow(const perf_type *type, uint64_t value)
{
    unsigned spare = 64 - 8 * (unsigned)type->size;
    return type->kind == PERF_SIGNED ? (uint64_t)((int64_t)(value << spare) >> spare) : value << spare >> spare;
}

typedef enum joint { ARITHMETIC, AND, OR, XOR } joint;

static joint
joint_of(const perf_pattern *p)
{
    int is_bool = p->type->kind == PERF_BOOL;
    switch (p->op) {
    case HOOP_BAND: return AND;
    case HOOP_BOR: return OR;
    case HOOP_BXOR: return XOR;
    case HOOP_PROD:
    case HOOP_MIN: return is_bool ? AND : ARITHMETIC;
    default: return is_bool ? OR : ARITHMETIC;
    }
}

static uint64_t
integer_value(const perf_pattern *p, int rank, size_t index)
{
    uint64_t bits = noise(p, rank, index);
    joint by = joint_of(p);
    int quiet = p->op >= 0 && (by == AND || by == OR) && index % (size_t)p->ranks != (size_t)rank;
    if (by == ARITHMETIC && p->op == HOOP_AVG)
        return (uint64_t)modest(p, rank, index);
    if (by == ARITHMETIC && p->op == HOOP_PROD)
        return narrow(p->type, bits | 1);
    if (quiet)
        return by == AND ? narrow(p->type, UINT64_MAX) : 0;
    return p->type->kind == PERF_BOOL && bits >> 32 & 1 ? 0 : narrow(p->type, bits);
}

int
perf_pattern_is_rounded(const perf_pattern *p)
{
    return p->op == HOOP_AVG && perf_type_is_small(p->type);
}

/* A rank's element of a mean, by its order. What `about` says is the same for all ranks. */
static int
mean_order(const perf_pattern *p, int rank, size_t index)
{
    uint64_t about = mix(~p->seed, (uint64_t)index), bits = noise(p, rank, index);
    int largest = perf_order_of_largest(p->type), infinity = perf_order_of_infinity(p->type);
    int binade = 1 << p->type->fraction_bits, sign = about & 1 ? -1 : 1;
    int normal =
        binade + (int)((about >> 32) % (uint64_t)(largest - 2 * binade)); /* ... and a binade more is one, too */
    int chosen = (int)(index / MEANS % (size_t)p->ranks) == rank;
    switch (index % MEANS) {
    case 0: return sign * largest;
    case 1: return sign * (int)(1 + (about >> 1) % 3);
    case 2: return chosen ? perf_order_of_nan(p->type) : sign * largest;
    case 3: return chosen && infinity ? sign * infinity : normal;
    case 4: return (int)(bits % (uint64_t)(2 * largest + 1)) - largest;
    default: return sign * (normal + (int)(bits % (uint64_t)binade));
    }
}

void
perf_pattern_send(const perf_pattern *p, int rank, void *table, size_t entries)
{
    uint8_t *out = table;
    for (size_t i = 0; i < entries; i++, out += p->type->size)
        if (perf_pattern_is_rounded(p))
            perf_put_order(p->type, out, mean_order(p, rank, i));
        else if (p->type->kind == PERF_FLOAT)
            perf_put_float(p->type, out, float_value(p, rank, i));
        else
            perf_put_integer(p->type, out, integer_value(p, rank, i));
}

/* Rounded to so many bits, to the nearest; a tie to the even one. Of normal numbers. */
static double
brief(float value, int bits)
{
    int exponent;
    double fraction = frexp((double)value, &exponent);
    return ldexp(nearbyint(ldexp(fraction, bits)), exponent - bits);
}

static double
reduced_float(const perf_pattern *p, size_t index)
{
    double all = float_value(p, 0, index);
    for (int rank = 1; rank < p->ranks; rank++) {
        double value = float_value(p, rank, index);
        switch (p->op) {
        case HOOP_PROD: all *= value; break;
        case HOOP_MAX: all = all > value ? all : value; break;
        case HOOP_MIN: all = all < value ? all : value; break;
        default: all += value;
        }
    }
    if (p->op != HOOP_AVG)
        return all;
    if (p->type->dtype == HOOP_FLOAT64)
        return all / p->ranks;
    float mean = (float)all / (float)p->ranks;
    return p->rounded ? brief(mean, p->brief) : (double)mean;
}

static uint64_t
reduced_integer(const perf_pattern *p, size_t index)
{
    int is_signed = p->type->kind == PERF_SIGNED, is_bool = p->type->kind == PERF_BOOL;
    uint64_t all = integer_value(p, 0, index);
    joint by = joint_of(p);
    for (int rank = 1; rank < p->ranks; rank++) {
        uint64_t value = integer_value(p, rank, index), a = is_bool ? all != 0 : all, b = is_bool ? value != 0 : value;
        int greater = is_signed ? (int64_t)a > (int64_t)b : a > b;
        if (by != ARITHMETIC)
            all = by == AND ? a & b : by == OR ? a | b : a ^ b;
        else if (p->op == HOOP_PROD)
            all = narrow(p->type, a * b);
        else if (p->op == HOOP_MAX || p->op == HOOP_MIN)
            all = greater == (p->op == HOOP_MAX) ? a : b;
        else
            all = narrow(p->type, a + b);
    }
    if (is_bool)
        return all != 0;
    if (p->op != HOOP_AVG)
        return all;
    return is_signed ? (uint64_t)((int64_t)all / p->ranks) : all / (uint64_t)p->ranks;
}

void
perf_pattern_reduced(const perf_pattern *p, void *table, size_t entries)
{
    uint8_t *out = table;
    for (size_t i = 0; i < entries; i++, out += p->type->size)
        if (p->type->kind == PERF_FLOAT)
            perf_put_float(p->type, out, reduced_float(p, i));
        else
            perf_put_integer(p->type, out, reduced_integer(p, i));
}

/* The order of a finite number, rounded, and then moved to the nearest one that is not on the wrong side of it. */
static int
order_beside(const perf_type *type, double value, int side)
{
    uint16_t element = 0;
    perf_put_float(type, &element, value);
    int order = perf_order(type, &element);
    while (side * perf_value_at(type, order) < side * value)
        order += side;
    return order;
}

/* What hoop_allreduce(3) promises: J of (n+1)/2 - 1/n is the most of all shapes. */
static perf_range
range_of(const perf_pattern *p, size_t index)
{
    perf_range all = {mean_order(p, 0, index), mean_order(p, 0, index)}; /* of all ranks; NaN and infinity, too */
    double sum = 0;
    for (int rank = 0; rank < p->ranks; rank++) {
        int order = mean_order(p, rank, index);
        all.least = order < all.least ? order : all.least;
        all.greatest = order > all.greatest ? order : all.greatest;
        sum += perf_value_at(p->type, order);
    }
    int largest = perf_order_of_largest(p->type), smallest_normal = 1 << p->type->fraction_bits;
    if (all.greatest > largest)
        return (perf_range){all.greatest, all.greatest};
    if (all.least < -largest)
        return (perf_range){all.least, all.least};
    double low = perf_value_at(p->type, all.least), high = perf_value_at(p->type, all.greatest);
    double magnitude = fmax(-low, high), mean = sum / p->ranks, joins = (p->ranks + 1) / 2.0 - 1.0 / p->ranks;
    double u = ldexp(1, -p->type->fraction_bits - 1), e = u * perf_value_at(p->type, smallest_normal);
    double off = 1.001 * joins * fmax(u * magnitude, e);
    perf_range range = all;
    if (mean - off > low)
        range.least = order_beside(p->type, mean - off, 1);
    if (mean + off < high)
        range.greatest = order_beside(p->type, mean + off, -1);
    return range;
}

/* A rank's element of a mean; NaN and infinities, too. */
static float
mean_value(const perf_pattern *p, int rank, size_t index)
{
    int order = mean_order(p, rank, index), infinity = perf_order_of_infinity(p->type);
    if (order == perf_order_of_nan(p->type))
        return NAN;
    if (infinity && (order == infinity || order == -infinity))
        return order < 0 ? -INFINITY : INFINITY;
    return (float)perf_value_at(p->type, order);
}

/* In rank order: the float32 sum, divided, and rounded once. */
static perf_range
ordered_mean(const perf_pattern *p, size_t index)
{
    int infinity = perf_order_of_infinity(p->type), order;
    float sum = mean_value(p, 0, index);
    uint16_t element = 0;
    for (int rank = 1; rank < p->ranks; rank++)
        sum += mean_value(p, rank, index);
    sum /= (float)p->ranks;
    if (isnan(sum)) {
        order = perf_order_of_nan(p->type);
    } else if (isinf(sum)) { /* 8-bit types saturate */
        order = p->type->size == 1 ? perf_order_of_largest(p->type) : infinity;
        order = sum < 0 ? -order : order;
    } else {
        perf_put_float(p->type, &element, (double)sum);
        order = perf_order(p->type, &element);
    }
    return (perf_range){order, order};
}

/*
 * In the order of hosts, which is not known here: any float32 sum of the same elements, divided, and rounded once. Where some
 * order may overflow, anything.
 */
static perf_range
grouped_mean(const perf_pattern *p, size_t index)
{
    int any = perf_order_of_nan(p->type), infinite = 0;
    double size = 0, sum = 0;
    uint16_t low = 0, high = 0;
    for (int rank = 0; rank < p->ranks; rank++) {
        float v = mean_value(p, rank, index);
        if (isnan(v))
            return (perf_range){any, any};
        infinite |= isinf(v) != 0;
        size += isinf(v) ? 0 : fabs((double)v);
        sum += isinf(v) ? 0 : (double)v;
    }
    if (size > (double)FLT_MAX)
        return (perf_range){-any, any};
    if (infinite)
        return ordered_mean(p, index);
    double off = ldexp(size, -24) * 1.01 + ldexp(1, -149), mean = sum / p->ranks;
    perf_put_float(p->type, &low, mean - off);
    perf_put_float(p->type, &high, mean + off);
    return (perf_range){perf_order(p->type, &low), perf_order(p->type, &high)};
}

void
perf_pattern_range(const perf_pattern *p, perf_range *table, size_t entries)
{
    for (size_t i = 0; i < entries; i++)
        table[i] = !p->ordered || p->ranks == 1 ? range_of(p, i)
                   : p->ordered == 1            ? ordered_mean(p, i)
                                                : grouped_mean(p, i);
}

/* --- the check --- */

enum { LARGEST_ELEMENT = 8, UNTOUCHED = 0xA5 };
_Static_assert(sizeof(perf_range) <= LARGEST_ELEMENT, "the table holds ranges, too");

int
perf_check_open(perf_check *check)
{
    check->table = calloc(PERF_PERIOD, LARGEST_ELEMENT);
    check->piece = calloc(PERF_PERIOD, LARGEST_ELEMENT);
    if (check->table && check->piece)
        return 0;
    perf_check_close(check);
    return -1;
}

void
perf_check_close(perf_check *check)
{
    free(check->table);
    free(check->piece);
    check->table = check->piece = NULL;
}

static size_t
element_size(const perf_check *check)
{
    return check->pattern.type->size;
}

static size_t
send_elements(const perf_check *check)
{
    return perf_coll_send_count(check->coll, check->call->count, check->pattern.ranks, check->rank);
}

static size_t
recv_bytes(const perf_check *check)
{
    size_t count = check->call->count;
    int ranks = check->pattern.ranks;
    size_t elements = check->in_place ? perf_coll_total(check->coll, count, ranks)
                                      : perf_coll_recv_count(check->coll, count, ranks, check->rank);
    return elements * element_size(check);
}

static size_t
period_of(size_t elements)
{
    return elements < PERF_PERIOD ? elements : PERF_PERIOD;
}

/* How many of `elements` elements at `at` are not the table's, which is entered at its element `first`. */
static uint64_t
compare(const perf_check *check, const uint8_t *at, size_t elements, size_t first, int rounded)
{
    size_t size = element_size(check), place = first % PERF_PERIOD;
    uint64_t wrong = 0;
    while (elements > 0) {
        size_t now = PERF_PERIOD - place < elements ? PERF_PERIOD - place : elements;
        perf_memory_copy(check->recv->memory, check->piece, at, now * size);
        const perf_range *ranges = (const perf_range *)(const void *)check->table + place;
        const uint8_t *wanted = check->table + place * size, *had = check->piece;
        for (size_t i = 0; rounded && i < now; i++) {
            int order = perf_order(check->pattern.type, had + i * size);
            wrong += order < ranges[i].least || order > ranges[i].greatest;
        }
        if (!rounded && memcmp(had, wanted, now * size) != 0)
            for (size_t i = 0; i < now; i++)
                wrong += memcmp(had + i * size, wanted + i * size, size) != 0;
        at += now * size;
        elements -= now;
        place = 0;
    }
    return wrong;
}

void
perf_check_fill(perf_check *check)
{
    size_t elements = send_elements(check), size = element_size(check);
    perf_memory_fill(check->recv->memory, check->recv->data, UNTOUCHED, recv_bytes(check));
    perf_buffer_guard(check->recv, recv_bytes(check));
    if (!perf_coll_sends(check->coll, check->rank, check->call->root))
        return;
    perf_pattern_send(&check->pattern, check->rank, check->table, period_of(elements));
    const perf_buffer *buffer = check->in_place ? check->recv : check->send;
    uint8_t *to = buffer->data + ((const uint8_t *)check->call->send - buffer->data);
    for (size_t at = 0; at < elements; at += PERF_PERIOD)
        perf_memory_copy(check->recv->memory, to + at * size, check->table, period_of(elements - at) * size);
}

/* One block of what was received, against what its origin sent. */
static uint64_t
wrong_in_block(const perf_check *check, int block)
{
    const perf_call *call = check->call;
    size_t count = call->count;
    int many = check->coll->recv == PERF_MANY, ranks = check->pattern.ranks;
    perf_block at = perf_coll_block(check->coll, count, ranks, many ? block : check->rank);
    perf_origin from = perf_coll_origin(check->coll, block, count, ranks, check->rank, call->root);
    size_t entries =
        period_of(perf_coll_send_count(check->coll, count, ranks, from.rank < 0 ? check->rank : from.rank));
    int rounded = from.rank < 0 && perf_pattern_is_rounded(&check->pattern);
    if (rounded)
        perf_pattern_range(&check->pattern, (perf_range *)(void *)check->table, entries);
    else if (from.rank < 0)
        perf_pattern_reduced(&check->pattern, check->table, entries);
    else
        perf_pattern_send(&check->pattern, from.rank, check->table, entries);
    const uint8_t *data = (const uint8_t *)call->recv + (many ? at.first * element_size(check) : 0);
    return compare(check, data, at.count, from.element, rounded);
}

uint64_t
perf_check_wrong(perf_check *check)
{
    int blocks = check->coll->recv == PERF_MANY ? check->pattern.ranks : 1;
    int root = check->call->root;
    uint64_t wrong = perf_buffer_trespassed(check->recv, recv_bytes(check));
    if (!check->in_place && perf_coll_sends(check->coll, check->rank, root)) { /* a send buffer is never written then */
        perf_pattern_send(&check->pattern, check->rank, check->table, period_of(send_elements(check)));
        wrong += compare(check, check->call->send, send_elements(check), 0, 0);
    }
    if (!perf_coll_receives(check->coll, check->rank, root))
        return wrong;
    for (int block = 0; block < blocks; block++)
        wrong += wrong_in_block(check, block);
    return wrong;
}
