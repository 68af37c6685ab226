/* SPDX-License-Identifier: MIT */
/*
 * types: the element types and reductions as nccl-tests names them, and how numbers are written in each type.
 * Done by plain arithmetic, apart from the library's own conversions, so that a mistake there cannot hide here.
 */
#ifndef PERF_TYPES_H
#define PERF_TYPES_H

#include "hoop.h"

enum { PERF_TYPES = 12, PERF_OPS = 5 };

typedef enum perf_kind { PERF_SIGNED, PERF_UNSIGNED, PERF_FLOAT } perf_kind;

typedef struct perf_type {
    const char *name;
    hoop_dtype dtype;
    perf_kind kind;
    size_t size;
    int exponent_bits, fraction_bits; /* floats */
} perf_type;

/* A row by its place in the tables (-d all, -o all), and by name; NULL and -1 for an unknown one. */
const perf_type *perf_type_at(int index);
int perf_type_named(const char *name);
const char *perf_op_name(int op);
int perf_op_named(const char *name);

/* Writes a whole number (the low bits of it), or a finite number rounded to nearest even, as one element. */
void perf_put_integer(const perf_type *type, void *element, uint64_t value);
void perf_put_float(const perf_type *type, void *element, double value);

/*
 * The floats of 16 and 8 bits by their order: 1 is the smallest number above 0, 2 the next one, and so on to the
 * largest, to infinity where the type has one, and at the end the NaN that the library makes; -1 is the opposite of 1.
 */
int perf_type_is_small(const perf_type *type);
int perf_order(const perf_type *type, const void *element);
void perf_put_order(const perf_type *type, void *element, int order);
double perf_value_at(const perf_type *type, int order); /* finite ones only */
int perf_order_of_largest(const perf_type *type);
int perf_order_of_nan(const perf_type *type);
int perf_order_of_infinity(const perf_type *type); /* 0: it has none */

#endif
