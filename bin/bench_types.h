/* SPDX-License-Identifier: MIT */
/*
 * bench_types: the element types and reductions as nccl-tests names them, and how numbers are written in each type.
 * Done by plain arithmetic, apart from the library's own conversions, so that a mistake there cannot hide here.
 */
#ifndef BENCH_TYPES_H
#define BENCH_TYPES_H

#include "hoop.h"

enum { BENCH_TYPES = 12, BENCH_OPS = 5 };

typedef enum bench_kind { BENCH_SIGNED, BENCH_UNSIGNED, BENCH_FLOAT } bench_kind;

typedef struct bench_type {
    const char *name;
    hoop_dtype dtype;
    bench_kind kind;
    size_t size;
    int exponent_bits, fraction_bits; /* floats */
} bench_type;

/* A row by its place in the tables (-d all, -o all), and by name; NULL and -1 for an unknown one. */
const bench_type *bench_type_at(int index);
int bench_type_named(const char *name);
const char *bench_op_name(int op);
int bench_op_named(const char *name);

/* Writes a whole number (the low bits of it), or a finite number rounded to nearest even, as one element. */
void bench_put_integer(const bench_type *type, void *element, uint64_t value);
void bench_put_float(const bench_type *type, void *element, double value);

/*
 * The floats of 16 and 8 bits by their order: 1 is the smallest number above 0, 2 the next one, and so on to the
 * largest, to infinity where the type has one, and at the end the NaN that the library makes; -1 is the opposite of 1.
 */
int bench_type_is_small(const bench_type *type);
int bench_order(const bench_type *type, const void *element);
void bench_put_order(const bench_type *type, void *element, int order);
double bench_value_at(const bench_type *type, int order); /* finite ones only */
int bench_order_of_largest(const bench_type *type);
int bench_order_of_nan(const bench_type *type);
int bench_order_of_infinity(const bench_type *type); /* 0: it has none */

#endif
