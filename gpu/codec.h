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
