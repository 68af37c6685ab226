/* SPDX-License-Identifier: MIT */
/*
 * pattern: pure functions of seed, rank and index.
 *
 * Integers: any bits (sums and products wrap, so order does not matter), odd ones for products, small ones for the
 * mean. Floats: whole numbers so small that no partial sum needs rounding; where even ones do not fit (8-bit floats
 * over many ranks), only some of the ranks have a number other than 0, other ranks at every index. Products are of plus
 * and minus 1, and 2 or 1/2 from three ranks at most. The mean's one division is rounded as the library must: by
 * float32, or float64.
 *
 * Means of 16- and 8-bit floats: the largest number from all ranks, so that sums overflow; the smallest ones, so that
 * n-th parts underflow; NaN or infinity from one rank, so that it shows where that rank was left out; any number at
 * all; and numbers close together, where the bound is narrow.
 */
#include "perf/pattern.h"

#include <math.h>

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

/* Whether this rank is one of the at most `limit` that have a say at this index; *shares: how many have, at most. */
static int
has_a_say(const perf_pattern *p, int rank, size_t index, uint64_t limit, uint64_t *shares)
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

/* A whole number, not 0, whose sum over the ranks stays exact; 0 from ranks without a say. */
static int64_t
modest(const perf_pattern *p, int rank, size_t index)
{
    uint64_t shares, most = exact_up_to(p->type), bits = noise(p, rank, index);
    if (!has_a_say(p, rank, index, most / LEAST_CHOICE, &shares))
        return 0;
    int64_t value = (int64_t)(1 + (bits >> 1) % (most / shares));
    return p->type->kind != PERF_UNSIGNED && bits & 1 ? -value : value;
}

static double
factor(const perf_pattern *p, int rank, size_t index)
{
    uint64_t shares, bits = noise(p, rank, index);
    double value = bits & 1 ? -1.0 : 1.0;
    if (!has_a_say(p, rank, index, 3, &shares))
        return value;
    return bits & 2 ? 2 * value : value / 2;
}

/* A float for MAX and MIN, or to be moved: not 0, so that there is one bit pattern for it. */
static double
landmark(const perf_pattern *p, int rank, size_t index)
{
    uint64_t bits = noise(p, rank, index);
    double value = (double)(1 + (bits >> 1) % exact_up_to(p->type));
    return bits & 1 ? -value : value;
}

static double
float_value(const perf_pattern *p, int rank, size_t index)
{
    switch (p->op) {
    case HOOP_SUM:
    case HOOP_AVG: return (double)modest(p, rank, index);
    case HOOP_PROD: return factor(p, rank, index);
    default: return landmark(p, rank, index);
    }
}

/* Sign-extended from the type's width, so that numbers of every width compare alike. */
static uint64_t
narrow(const perf_type *type, uint64_t value)
{
    unsigned spare = 64 - 8 * (unsigned)type->size;
    return type->kind == PERF_SIGNED ? (uint64_t)((int64_t)(value << spare) >> spare) : value << spare >> spare;
}

static uint64_t
integer_value(const perf_pattern *p, int rank, size_t index)
{
    uint64_t bits = noise(p, rank, index);
    if (p->op == HOOP_AVG)
        return (uint64_t)modest(p, rank, index);
    return narrow(p->type, p->op == HOOP_PROD ? bits | 1 : bits);
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

static double
combine_floats(int op, double a, double b)
{
    switch (op) {
    case HOOP_PROD: return a * b;
    case HOOP_MAX: return a > b ? a : b;
    case HOOP_MIN: return a < b ? a : b;
    default: return a + b;
    }
}

static double
mean_of(const perf_type *type, double sum, int ranks)
{
    if (type->dtype == HOOP_FLOAT64)
        return sum / ranks;
    return (double)((float)sum / (float)ranks);
}

static double
reduced_float(const perf_pattern *p, size_t index)
{
    double all = float_value(p, 0, index);
    for (int rank = 1; rank < p->ranks; rank++)
        all = combine_floats(p->op, all, float_value(p, rank, index));
    return p->op == HOOP_AVG ? mean_of(p->type, all, p->ranks) : all;
}

static uint64_t
combine_integers(const perf_type *type, int op, uint64_t a, uint64_t b)
{
    int greater = type->kind == PERF_SIGNED ? (int64_t)a > (int64_t)b : a > b;
    switch (op) {
    case HOOP_PROD: return narrow(type, a * b);
    case HOOP_MAX: return greater ? a : b;
    case HOOP_MIN: return greater ? b : a;
    default: return narrow(type, a + b);
    }
}

static uint64_t
reduced_integer(const perf_pattern *p, size_t index)
{
    uint64_t all = integer_value(p, 0, index);
    for (int rank = 1; rank < p->ranks; rank++)
        all = combine_integers(p->type, p->op, all, integer_value(p, rank, index));
    if (p->op != HOOP_AVG)
        return all;
    return p->type->kind == PERF_SIGNED ? (uint64_t)((int64_t)all / p->ranks) : all / (uint64_t)p->ranks;
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

/* The rank's elements that a mean is of. */
typedef struct elements {
    int least, greatest; /* by order; a NaN or an infinity is one of them */
    double sum;
} elements;

static elements
elements_of(const perf_pattern *p, size_t index)
{
    elements all = {.least = mean_order(p, 0, index)};
    all.greatest = all.least;
    for (int rank = 0; rank < p->ranks; rank++) {
        int order = mean_order(p, rank, index);
        all.least = order < all.least ? order : all.least;
        all.greatest = order > all.greatest ? order : all.greatest;
        all.sum += perf_value_at(p->type, order);
    }
    return all;
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
    elements all = elements_of(p, index);
    int largest = perf_order_of_largest(p->type), smallest_normal = 1 << p->type->fraction_bits;
    if (all.greatest > largest)
        return (perf_range){all.greatest, all.greatest};
    if (all.least < -largest)
        return (perf_range){all.least, all.least};
    double low = perf_value_at(p->type, all.least), high = perf_value_at(p->type, all.greatest);
    double magnitude = fmax(-low, high), mean = all.sum / p->ranks, joins = (p->ranks + 1) / 2.0 - 1.0 / p->ranks;
    double u = ldexp(1, -p->type->fraction_bits - 1), e = u * perf_value_at(p->type, smallest_normal);
    double off = 1.001 * joins * fmax(u * magnitude, e);
    perf_range range = {all.least, all.greatest};
    if (mean - off > low)
        range.least = order_beside(p->type, mean - off, 1);
    if (mean + off < high)
        range.greatest = order_beside(p->type, mean + off, -1);
    return range;
}

void
perf_pattern_range(const perf_pattern *p, perf_range *table, size_t entries)
{
    for (size_t i = 0; i < entries; i++)
        table[i] = range_of(p, i);
}
