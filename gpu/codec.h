/* SPDX-License-Identifier: MIT */
/*
 * codec: the small floating-point formats, to and from float32. Pure and without branches, so that compilers vectorise
 * it; the CPU (gpu/reduce_*.c) and the GPU (gpu/kernels.cu) compile this very text and get the same bits.
 *
 *                sign exponent mantissa bias   largest   overflow and infinity      NaN
 *   float16        1      5       10     15     65504    become infinity            0x7fff
 *   bfloat16       1      8        7    127     3.4e38   become infinity            0x7fff
 *   float8 e4m3    1      4        3      7     448      saturate to +-448 (0x7e)   0x7f (has no infinity)
 *   float8 e5m2    1      5        2     15     57344    saturate to +-57344 (0x7b) 0x7f
 *
 * Encoding rounds to nearest, ties to even; denormals are rounded like any other value; the sign of zero stays. Every
 * NaN is encoded as the one NaN named above, so that no bit depends on which NaN an instruction propagates. Decoding is
 * exact; a NaN stays a NaN and becomes quiet; e5m2 has infinities and they are decoded as such. Assumes the default
 * floating-point environment: round to nearest, denormals kept.
 *
 * HP_SCALED is e4m3 in blocks of float32, whose scale is a power of two, 2^(s - 127) for the byte s = 1 ... 247: the least
 * by which the greatest finite magnitude of the block is at most 464, so that it rounds to 448 at most. Each value is
 * divided by it, rounded once, and a code tells the quotient. So no finite value becomes infinite, what has at least 2^-13 of
 * the greatest magnitude keeps its digits, and decoding is exact. Codes 0x7f and 0xff are the two infinities, and 0x80,
 * which would be -0, is NaN: -0 and what rounds to it become +0.
 */
#ifndef HP_CODEC_H
#define HP_CODEC_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define HP_CODEC static __device__ __host__ inline
#else
#define HP_CODEC static inline __attribute__((always_inline))
#endif

HP_CODEC uint32_t
hp_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

HP_CODEC float
hp_float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* 2 to the power, for -126 <= power <= 127. */
HP_CODEC float
hp_float_power(int power)
{
    return hp_float_from_bits((uint32_t)(127 + power) << 23);
}

/*
 * The magnitude of a float32 (bits without sign, not NaN) in a format with `mantissa` bits and `bias`, as if its
 * exponent had no upper end: the caller cuts at its format's largest value.
 */
HP_CODEC uint32_t
hp_small_encode(uint32_t magnitude, int mantissa, int bias)
{
    uint32_t cut = (uint32_t)(23 - mantissa);
    uint32_t smallest_normal = (uint32_t)(128 - bias) << 23;
    /* Normal: add half a unit, less one if the last bit kept is even; a carry moves into the exponent. */
    uint32_t rounded = magnitude + ((UINT32_C(1) << (cut - 1)) - 1) + (magnitude >> cut & 1);
    uint32_t normal = (rounded - ((uint32_t)(127 - bias) << 23)) >> cut;
    /* Denormal: added to a float32 whose last bit weighs one unit of the format, the FPU rounds for us. */
    float unit = hp_float_power(24 - bias - mantissa);
    uint32_t denormal = hp_float_bits(hp_float_from_bits(magnitude) + unit) - hp_float_bits(unit);
    return magnitude < smallest_normal ? denormal : normal;
}

/*
 * The opposite: exponent and mantissa bits `code` as the bits of a float32. Codes from `special` on (infinity, then
 * NaN) go to float32's infinity and NaN.
 */
HP_CODEC uint32_t
hp_small_decode(uint32_t code, int mantissa, int bias, uint32_t special)
{
    uint32_t cut = (uint32_t)(23 - mantissa);
    uint32_t normal = (code << cut) + ((uint32_t)(127 - bias) << 23);
    uint32_t denormal = hp_float_bits((float)(int32_t)code * hp_float_power(1 - bias - mantissa));
    uint32_t finite = code < UINT32_C(1) << mantissa ? denormal : normal;
    uint32_t beyond = UINT32_C(0x7f800000) | code << cut | (code > special ? UINT32_C(0x400000) : 0);
    return code >= special ? beyond : finite;
}

HP_CODEC float
hp_fp16_decode(uint16_t code)
{
    uint32_t sign = (uint32_t)(code & 0x8000) << 16;
    return hp_float_from_bits(sign | hp_small_decode(code & 0x7fff, 10, 15, 0x7c00));
}

HP_CODEC uint16_t
hp_fp16_encode(float value)
{
    uint32_t bits = hp_float_bits(value);
    uint32_t magnitude = bits & UINT32_C(0x7fffffff);
    uint32_t code = hp_small_encode(magnitude, 10, 15);
    code = code < 0x7c00 ? code : 0x7c00;
    code |= bits >> 16 & 0x8000;
    return (uint16_t)(magnitude > UINT32_C(0x7f800000) ? 0x7fff : code);
}

HP_CODEC float
hp_bf16_decode(uint16_t code)
{
    uint32_t bits = (uint32_t)code << 16;
    uint32_t quiet = (bits & UINT32_C(0x7fffffff)) > UINT32_C(0x7f800000) ? UINT32_C(0x400000) : 0;
    return hp_float_from_bits(bits | quiet);
}

HP_CODEC uint16_t
hp_bf16_encode(float value)
{
    uint32_t bits = hp_float_bits(value);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)((bits & UINT32_C(0x7fffffff)) > UINT32_C(0x7f800000) ? 0x7fff : rounded);
}

/* e4m3's only NaN code is 0x7f, and there is no infinity before it. */
HP_CODEC float
hp_e4m3_decode(uint8_t code)
{
    uint32_t sign = (uint32_t)(code & 0x80) << 24;
    uint32_t magnitude = code & 0x7f;
    uint32_t bits = hp_small_decode(magnitude, 3, 7, 0x80);
    return hp_float_from_bits(sign | (magnitude == 0x7f ? UINT32_C(0x7fc00000) : bits));
}

HP_CODEC uint8_t
hp_e4m3_encode(float value)
{
    uint32_t bits = hp_float_bits(value);
    uint32_t magnitude = bits & UINT32_C(0x7fffffff);
    uint32_t code = hp_small_encode(magnitude, 3, 7);
    code = code < 0x7e ? code : 0x7e;
    code |= bits >> 24 & 0x80;
    return (uint8_t)(magnitude > UINT32_C(0x7f800000) ? 0x7f : code);
}

/*
 * Of a value in a block: the greater its magnitude, the greater; that of 0 is HP_SCALED_NONE, and that of no finite number
 * is negative.
 */
#define HP_SCALED_NONE INT32_C(0x800000)

HP_CODEC int32_t
hp_scaled_rank(float value)
{
    return (int32_t)((hp_float_bits(value) & UINT32_C(0x7fffffff)) + HP_SCALED_NONE);
}

/* The scale of a block by the greatest of these: what is above 464 = 1.8125 * 2^8 gets the next power of two. */
HP_CODEC uint8_t
hp_scaled_scale(int32_t most)
{
    uint32_t exponent = ((uint32_t)most - HP_SCALED_NONE + UINT32_C(0x17ffff)) >> 23;
    return (uint8_t)(exponent > 9 ? exponent - 8 : 1);
}

HP_CODEC float
hp_scaled_factor(uint8_t scale)
{
    return hp_float_from_bits((uint32_t)scale << 23);
}

/* 1 / factor */
HP_CODEC float
hp_scaled_inverse(uint8_t scale)
{
    return hp_float_from_bits((uint32_t)(254 - scale) << 23);
}

/* The greatest value of a code: under the greatest scale those above 240 are beyond float32. */
HP_CODEC float
hp_scaled_limit(uint8_t scale)
{
    return scale < 247 ? 448.0F : 240.0F;
}

/*
 * Of a finite number. Added to 2^20 times the power of two below it, a quotient is rounded by the FPU to the four digits that
 * a code has: they are the last bits of the sum, from 8 to 16, and below 2^-6 fewer.
 */
HP_CODEC uint8_t
hp_scaled_encode_finite(float value, float inverse, float limit)
{
    uint32_t bits = hp_float_bits(value);
    float quotient = hp_float_from_bits(bits & UINT32_C(0x7fffffff)) * inverse;
    quotient = quotient < limit ? quotient : limit;
    float normal = quotient > 0x1p-6F ? quotient : 0x1p-6F;
    uint32_t power = hp_float_bits(normal) & UINT32_C(0x7f800000);
    uint32_t unit = power + (UINT32_C(20) << 23);
    uint32_t digits = hp_float_bits(quotient + hp_float_from_bits(unit)) - unit;
    uint32_t code = digits + ((power - (UINT32_C(121) << 23)) >> 20);
    return (uint8_t)(code | (bits >> 24 & 0x80 & (0 - code))); /* no sign without digits */
}

HP_CODEC uint8_t
hp_scaled_encode(float value, float inverse, float limit)
{
    uint32_t bits = hp_float_bits(value);
    uint32_t magnitude = bits & UINT32_C(0x7fffffff);
    uint8_t infinity = (uint8_t)((bits >> 24 & 0x80) | 0x7f);
    uint8_t code = hp_scaled_encode_finite(value, inverse, limit);
    code = magnitude == UINT32_C(0x7f800000) ? infinity : code;
    return magnitude > UINT32_C(0x7f800000) ? 0x80 : code;
}

HP_CODEC int
hp_scaled_is_finite(uint8_t code)
{
    return ((code & 0x7f) != 0x7f) & (code != 0x80);
}

HP_CODEC float
hp_scaled_decode_finite(uint8_t code, float factor)
{
    uint32_t sign = (uint32_t)(code & 0x80) << 24;
    uint32_t magnitude = code & 0x7f;
    uint32_t bits = hp_small_decode(magnitude, 3, 7, 0x80);
    return hp_float_from_bits(sign | bits) * factor;
}

HP_CODEC float
hp_scaled_decode(uint8_t code, float factor)
{
    float infinity = hp_float_from_bits((uint32_t)(code & 0x80) << 24 | UINT32_C(0x7f800000));
    float value = (code & 0x7f) == 0x7f ? infinity : hp_scaled_decode_finite(code, factor);
    return code == 0x80 ? hp_float_from_bits(UINT32_C(0x7fc00000)) : value;
}

HP_CODEC float
hp_e5m2_decode(uint8_t code)
{
    uint32_t sign = (uint32_t)(code & 0x80) << 24;
    return hp_float_from_bits(sign | hp_small_decode(code & 0x7f, 2, 15, 0x7c));
}

HP_CODEC uint8_t
hp_e5m2_encode(float value)
{
    uint32_t bits = hp_float_bits(value);
    uint32_t magnitude = bits & UINT32_C(0x7fffffff);
    uint32_t code = hp_small_encode(magnitude, 2, 15);
    code = code < 0x7b ? code : 0x7b;
    code |= bits >> 24 & 0x80;
    return (uint8_t)(magnitude > UINT32_C(0x7f800000) ? 0x7f : code);
}

/* A mean's: it cannot overflow, so that infinity is what some rank had, and stays (0x7c). */
HP_CODEC uint8_t
hp_e5m2_encode_mean(float value)
{
    uint32_t bits = hp_float_bits(value);
    uint32_t infinity = (bits >> 24 & 0x80) | 0x7c;
    uint32_t code = hp_e5m2_encode(value);
    return (uint8_t)((bits & UINT32_C(0x7fffffff)) == UINT32_C(0x7f800000) ? infinity : code);
}

#endif
