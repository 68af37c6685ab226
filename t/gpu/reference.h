/* SPDX-License-Identifier: MIT */
/*
 * reference: what reductions must give, computed slowly and by other means than the library: small floats by searching
 * a table of all their values, float32 in double, integers in 128 bits, BAND, BOR and BXOR by counting ones.
 */
#ifndef T_REFERENCE_H
#define T_REFERENCE_H

#include "hoop.h"

/* The value of a code of a 16- or 8-bit float; the code nearest to a value, as gpu/codec.h promises it. */
double ref_decode(hoop_dtype dtype, uint32_t code);
uint32_t ref_encode(hoop_dtype dtype, double value);

/* Elements as the lowest bits of an integer. */
uint64_t ref_get(hoop_dtype dtype, const void *array, size_t index);
void ref_put(hoop_dtype dtype, void *array, size_t index, uint64_t element);

/*
 * a op b, both bools or of a type that has the operation, then / divisor if it is greater than 1. sources 1: b and op
 * do not matter.
 */
uint64_t ref_reduce(hoop_dtype dtype, hoop_op op, int sources, uint64_t a, uint64_t b, uint32_t divisor);

/*
 * The mean over p + q ranks of two means, a over p and b over q of them; 16- and 8-bit floats. As hoop.h promises:
 * weights, products and sum as float32, each rounded, then once to the type; an infinity stays one.
 */
uint64_t ref_mean(hoop_dtype dtype, uint32_t p, uint32_t q, uint64_t a, uint64_t b);

/* Element a of type `from` as one of type `to`, both floats. */
uint64_t ref_convert(hoop_dtype from, hoop_dtype to, uint64_t a);

/* Equal bits, or two NaNs, or with `any_zero` two zeros. */
int ref_same(hoop_dtype dtype, uint64_t wanted, uint64_t seen, int any_zero);

/* A random element; one in eight is special: zeros, ends of the range, denormals, infinities, NaN. */
uint64_t ref_random(hoop_dtype dtype);

#endif
