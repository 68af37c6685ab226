/* SPDX-License-Identifier: MIT */
/*
 * reduce_loops: the text of the loops. Each reduce_*.c includes it once, and defines before
 *     TARGET    the attribute that names its instruction set
 *     ARITH     the hp_arith to define, ARITH_NAME its name, and a function usable()
 * and, if the set can convert float16, VECTORS and what "by hand" below needs. A loop is written once for all
 * reductions: `op` is a constant in every call of a *_loop, so the compiler makes one vector loop for each operation.
 * INDEPENDENT promises that no element depends on another one, which is true also for equal pointers, unlike
 * `restrict`.
 *
 * All instruction sets must give the same bits: no contraction into FMA, no reassociation. (no-trapping-math changes no
 * bits, because hoop does not read the floating-point flags, and lets gcc compute both sides of a choice.)
 */
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#pragma clang diagnostic ignored "-Wpass-failed" /* without optimisation INDEPENDENT has no effect */
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#pragma GCC optimize("O3", "fp-contract=off", "no-trapping-math")
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

#include "gpu/arith.h"
#include "gpu/codec.h"

#define INLINE TARGET static inline __attribute__((always_inline))

INLINE int
power_of_two(uint32_t n)
{
    return (n & (n - 1)) == 0;
}

/* A NaN in either operand is the result: the comparison is false and picks b, the second line picks a. */
#define FLOAT_STEP(name, type)                                                                                         \
    INLINE type name##_step(hoop_op op, type a, type b)                                                                \
    {                                                                                                                  \
        type greater = a > b ? a : b;                                                                                  \
        type smaller = a < b ? a : b;                                                                                  \
        switch (op) {                                                                                                  \
        case HOOP_PROD: return a * b;                                                                                  \
        case HOOP_MAX: return a != a ? a : greater;                                                                    \
        case HOOP_MIN: return a != a ? a : smaller;                                                                    \
        default: return a + b;                                                                                         \
        }                                                                                                              \
    }

/*
 * `ring` is an unsigned type in which overflow wraps: for 16 bits that of 32, because C promotes uint16_t to int, which
 * a product can overflow.
 */
#define INTEGER_STEP(name, type, ring)                                                                                 \
    INLINE type name##_step(hoop_op op, type a, type b)                                                                \
    {                                                                                                                  \
        switch (op) {                                                                                                  \
        case HOOP_PROD: return (type)(ring)((ring)a * (ring)b);                                                        \
        case HOOP_MAX: return a > b ? a : b;                                                                           \
        case HOOP_MIN: return a < b ? a : b;                                                                           \
        default: return (type)(ring)((ring)a + (ring)b);                                                               \
        }                                                                                                              \
    }

INLINE uint8_t
bits_step(hoop_op op, uint8_t a, uint8_t b)
{
    switch (op) {
    case HOOP_BAND: return a & b;
    case HOOP_BOR: return a | b;
    default: return a ^ b;
    }
}

/* Any byte but 0 is true; the result is 0 or 1. */
INLINE uint8_t
bool_step(hoop_op op, uint8_t a, uint8_t b)
{
    switch (op) {
    case HOOP_BAND: return (a != 0) & (b != 0);
    case HOOP_BOR: return (a | b) != 0;
    default: return (a != 0) ^ (b != 0);
    }
}

/* One loop for each reduction. */
#define DISPATCH(name)                                                                                                 \
    TARGET static void name##_reduce(hoop_op op, void *d, const void *a, const void *b, size_t count)                  \
    {                                                                                                                  \
        switch (op) {                                                                                                  \
        case HOOP_PROD: name##_loop(HOOP_PROD, d, a, b, count); break;                                                 \
        case HOOP_MAX: name##_loop(HOOP_MAX, d, a, b, count); break;                                                   \
        case HOOP_MIN: name##_loop(HOOP_MIN, d, a, b, count); break;                                                   \
        default: name##_loop(HOOP_SUM, d, a, b, count); break;                                                         \
        }                                                                                                              \
    }

#define LOOP(name, type)                                                                                               \
    INLINE void name##_loop(hoop_op op, type *d, const type *a, const type *b, size_t count)                           \
    {                                                                                                                  \
        INDEPENDENT                                                                                                    \
        for (size_t i = 0; i < count; i++)                                                                             \
            d[i] = name##_step(op, a[i], b[i]);                                                                        \
    }

#define REDUCE(name, type)                                                                                             \
    LOOP(name, type)                                                                                                   \
    DISPATCH(name)

/*
 * Integers truncate. They are divided in `wide`: float for 8 and 16 bits and double for 32 vectorise, and are exact,
 * because the distance of a quotient from the next integer, if it is none, is larger than any rounding error: 1/|d| of
 * itself.
 */
#define DIVIDE(name, type, wide)                                                                                       \
    TARGET static void name##_divide(void *values, uint32_t divisor, size_t count)                                     \
    {                                                                                                                  \
        type *d = values;                                                                                              \
        wide by = (wide)divisor;                                                                                       \
        INDEPENDENT                                                                                                    \
        for (size_t i = 0; i < count; i++)                                                                             \
            d[i] = (type)((wide)d[i] / by);                                                                            \
    }

/* Multiplication by 1/2^k gives the same bits as division by 2^k, and is much faster. */
#define DIVIDE_FLOAT(name, type)                                                                                       \
    DIVIDE(name##_truly, type, type)                                                                                   \
    TARGET static void name##_divide(void *values, uint32_t divisor, size_t count)                                     \
    {                                                                                                                  \
        type *d = values;                                                                                              \
        type inverse = (type)1 / (type)divisor;                                                                        \
        if (!power_of_two(divisor)) {                                                                                  \
            name##_truly_divide(values, divisor, count);                                                               \
            return;                                                                                                    \
        }                                                                                                              \
        INDEPENDENT                                                                                                    \
        for (size_t i = 0; i < count; i++)                                                                             \
            d[i] *= inverse;                                                                                           \
    }

#define DECODE(name, type, load)                                                                                       \
    TARGET static void name##_decode(float *out, const void *in, size_t count)                                         \
    {                                                                                                                  \
        const type *from = in;                                                                                         \
        INDEPENDENT                                                                                                    \
        for (size_t i = 0; i < count; i++)                                                                             \
            out[i] = load(from[i]);                                                                                    \
    }

#define ENCODE(name, type, store)                                                                                      \
    TARGET static void name##_encode(void *out, const float *in, size_t count)                                         \
    {                                                                                                                  \
        type *to = out;                                                                                                \
        INDEPENDENT                                                                                                    \
        for (size_t i = 0; i < count; i++)                                                                             \
            to[i] = store(in[i]);                                                                                      \
    }

#define MEAN(name, type, load, store)                                                                                  \
    TARGET static void name##_mean(void *d, const void *a, const void *b, const float weight[2], size_t count)         \
    {                                                                                                                  \
        type *to = d;                                                                                                  \
        const type *x = a, *y = b;                                                                                     \
        float left = weight[0], right = weight[1];                                                                     \
        INDEPENDENT                                                                                                    \
        for (size_t i = 0; i < count; i++)                                                                             \
            to[i] = store(load(x[i]) * left + load(y[i]) * right);                                                     \
    }

INTEGER_STEP(i8, int8_t, uint8_t)
INTEGER_STEP(u8, uint8_t, uint8_t)
INTEGER_STEP(i16, int16_t, uint32_t)
INTEGER_STEP(u16, uint16_t, uint32_t)
INTEGER_STEP(i32, int32_t, uint32_t)
INTEGER_STEP(u32, uint32_t, uint32_t)
INTEGER_STEP(i64, int64_t, uint64_t)
INTEGER_STEP(u64, uint64_t, uint64_t)
FLOAT_STEP(fp32, float)
FLOAT_STEP(fp64, double)

REDUCE(i8, int8_t)
REDUCE(u8, uint8_t)
REDUCE(i16, int16_t)
REDUCE(u16, uint16_t)
REDUCE(i32, int32_t)
REDUCE(u32, uint32_t)
REDUCE(i64, int64_t)
REDUCE(u64, uint64_t)
REDUCE(fp32, float)
REDUCE(fp64, double)

LOOP(bits, uint8_t)
LOOP(bool, uint8_t)

TARGET static void
bits_reduce(hoop_op op, void *d, const void *a, const void *b, size_t bytes)
{
    switch (op) {
    case HOOP_BAND: bits_loop(HOOP_BAND, d, a, b, bytes); break;
    case HOOP_BOR: bits_loop(HOOP_BOR, d, a, b, bytes); break;
    default: bits_loop(HOOP_BXOR, d, a, b, bytes); break;
    }
}

/* A sum and the greatest are or, a product and the least are and. */
TARGET static void
bool_reduce(hoop_op op, void *d, const void *a, const void *b, size_t count)
{
    switch (op) {
    case HOOP_BXOR: bool_loop(HOOP_BXOR, d, a, b, count); break;
    case HOOP_PROD:
    case HOOP_MIN:
    case HOOP_BAND: bool_loop(HOOP_BAND, d, a, b, count); break;
    default: bool_loop(HOOP_BOR, d, a, b, count); break;
    }
}

DIVIDE(i8, int8_t, float)
DIVIDE(u8, uint8_t, float)
DIVIDE(i16, int16_t, float)
DIVIDE(u16, uint16_t, float)
DIVIDE(i32, int32_t, double)
DIVIDE(u32, uint32_t, double)
DIVIDE(i64, int64_t, int64_t)
DIVIDE(u64, uint64_t, uint64_t)
DIVIDE_FLOAT(fp32, float)
DIVIDE_FLOAT(fp64, double)

DECODE(fp32, float, (float))
DECODE(fp64, double, (float))
DECODE(bf16, uint16_t, hp_bf16_decode)
DECODE(e4m3, uint8_t, hp_e4m3_decode)
DECODE(e5m2, uint8_t, hp_e5m2_decode)
ENCODE(fp32, float, (float))
ENCODE(fp64, double, (double))
ENCODE(bf16, uint16_t, hp_bf16_encode)
ENCODE(e4m3, uint8_t, hp_e4m3_encode)
ENCODE(e5m2, uint8_t, hp_e5m2_encode)
MEAN(e4m3, uint8_t, hp_e4m3_decode, hp_e4m3_encode)
MEAN(e5m2, uint8_t, hp_e5m2_decode, hp_e5m2_encode_mean)

/* Most blocks have only finite numbers. */
INLINE void
scaled_encode_block(uint8_t *to, const float *from, size_t count)
{
    int32_t most = HP_SCALED_NONE, all = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t rank = hp_scaled_rank(from[i]);
        most = rank > most ? rank : most;
        all |= rank;
    }
    uint8_t scale = hp_scaled_scale(most);
    float inverse = hp_scaled_inverse(scale), limit = hp_scaled_limit(scale);
    *to++ = scale;
    if (all < 0) {
        INDEPENDENT
        for (size_t i = 0; i < count; i++)
            to[i] = hp_scaled_encode(from[i], inverse, limit);
        return;
    }
    INDEPENDENT
    for (size_t i = 0; i < count; i++)
        to[i] = hp_scaled_encode_finite(from[i], inverse, limit);
}

INLINE void
scaled_decode_block(float *to, const uint8_t *from, size_t count)
{
    float factor = hp_scaled_factor(*from++);
    uint8_t others = 0;
    for (size_t i = 0; i < count; i++)
        others |= (uint8_t)!hp_scaled_is_finite(from[i]);
    if (others) {
        INDEPENDENT
        for (size_t i = 0; i < count; i++)
            to[i] = hp_scaled_decode(from[i], factor);
        return;
    }
    INDEPENDENT
    for (size_t i = 0; i < count; i++)
        to[i] = hp_scaled_decode_finite(from[i], factor);
}

/* The whole blocks have a loop whose length the compiler knows. */
TARGET static void
scaled_encode(void *out, const float *in, size_t count)
{
    uint8_t *to = out;
    for (; count >= HP_SCALED_BLOCK; count -= HP_SCALED_BLOCK) {
        scaled_encode_block(to, in, HP_SCALED_BLOCK);
        to += 1 + HP_SCALED_BLOCK;
        in += HP_SCALED_BLOCK;
    }
    if (count > 0)
        scaled_encode_block(to, in, count);
}

TARGET static void
scaled_decode(float *out, const void *in, size_t count)
{
    const uint8_t *from = in;
    for (; count >= HP_SCALED_BLOCK; count -= HP_SCALED_BLOCK) {
        scaled_decode_block(out, from, HP_SCALED_BLOCK);
        from += 1 + HP_SCALED_BLOCK;
        out += HP_SCALED_BLOCK;
    }
    if (count > 0)
        scaled_decode_block(out, from, count);
}

#ifdef VECTORS
/*
 * By hand: float16 and bfloat16, in blocks of BLOCK elements. The including file defines
 *     vec                          a vector of BLOCK / 2 floats;  hp_pair, two of them: {vec x, y}
 *     vec_all(f)                                  that float everywhere
 *     vec_max(a, b), vec_min(a, b)                the same as fp32_step's, NaNs included
 *     fp16_load(p), bf16_load(p)                  a block of elements as a pair
 *     fp16_store(p, pair), bf16_store(p, pair)    the opposite, with the bits of codec.h
 *     vec_get(f), vec_put(f, pair)                a block of floats, in the order of float16's pairs
 */
typedef struct hp_weights {
    vec left, right;
} hp_weights;

INLINE vec
vec_step(hoop_op op, vec a, vec b, const hp_weights *weights)
{
    switch (op) {
    case HOOP_PROD: return a * b;
    case HOOP_MAX: return vec_max(a, b);
    case HOOP_MIN: return vec_min(a, b);
    case HOOP_AVG: return a * weights->left + b * weights->right;
    default: return a + b;
    }
}

/* The elements after the last whole block are copied to blocks on the stack. */
#define REDUCE_BY_HAND(name)                                                                                           \
    INLINE void name##_block(hoop_op op, uint16_t *d, const uint16_t *a, const uint16_t *b, const hp_weights *w)       \
    {                                                                                                                  \
        hp_pair u = name##_load(a);                                                                                    \
        hp_pair v = name##_load(b);                                                                                    \
        name##_store(d, (hp_pair){vec_step(op, u.x, v.x, w), vec_step(op, u.y, v.y, w)});                              \
    }                                                                                                                  \
    INLINE void name##_blocks(hoop_op op, uint16_t *d, const uint16_t *a, const uint16_t *b, const hp_weights *w,      \
                              size_t count)                                                                            \
    {                                                                                                                  \
        uint16_t rest[2][BLOCK] = {{0}};                                                                               \
        size_t i = 0;                                                                                                  \
        for (; i + BLOCK <= count; i += BLOCK)                                                                         \
            name##_block(op, d + i, a + i, b + i, w);                                                                  \
        if (i == count)                                                                                                \
            return;                                                                                                    \
        memcpy(rest[0], a + i, sizeof(*a) * (count - i));                                                              \
        memcpy(rest[1], b + i, sizeof(*b) * (count - i));                                                              \
        name##_block(op, rest[0], rest[0], rest[1], w);                                                                \
        memcpy(d + i, rest[0], sizeof(*d) * (count - i));                                                              \
    }                                                                                                                  \
    INLINE void name##_loop(hoop_op op, uint16_t *d, const uint16_t *a, const uint16_t *b, size_t count)               \
    {                                                                                                                  \
        name##_blocks(op, d, a, b, NULL, count);                                                                       \
    }                                                                                                                  \
    TARGET static void name##_mean(void *d, const void *a, const void *b, const float weight[2], size_t count)         \
    {                                                                                                                  \
        hp_weights weights = {vec_all(weight[0]), vec_all(weight[1])};                                                 \
        name##_blocks(HOOP_AVG, d, a, b, &weights, count);                                                             \
    }                                                                                                                  \
    DISPATCH(name)

REDUCE_BY_HAND(bf16)
REDUCE_BY_HAND(fp16)

TARGET static void
fp16_decode(float *out, const void *in, size_t count)
{
    const uint16_t *from = in;
    size_t i = 0;
    for (; i + BLOCK <= count; i += BLOCK)
        vec_put(out + i, fp16_load(from + i));
    for (; i < count; i++)
        out[i] = hp_fp16_decode(from[i]);
}

TARGET static void
fp16_encode(void *out, const float *in, size_t count)
{
    uint16_t *to = out;
    size_t i = 0;
    for (; i + BLOCK <= count; i += BLOCK)
        fp16_store(to + i, vec_get(in + i));
    for (; i < count; i++)
        to[i] = hp_fp16_encode(in[i]);
}
#else
DECODE(fp16, uint16_t, hp_fp16_decode)
ENCODE(fp16, uint16_t, hp_fp16_encode)
MEAN(fp16, uint16_t, hp_fp16_decode, hp_fp16_encode)
MEAN(bf16, uint16_t, hp_bf16_decode, hp_bf16_encode)
#endif

const hp_arith ARITH = {
    .name = ARITH_NAME,
    .usable = usable,
    .bits = bits_reduce,
    .reduce = {[HOOP_INT8] = i8_reduce,
               [HOOP_UINT8] = u8_reduce,
               [HOOP_INT32] = i32_reduce,
               [HOOP_UINT32] = u32_reduce,
               [HOOP_INT64] = i64_reduce,
               [HOOP_UINT64] = u64_reduce,
#ifdef VECTORS
               [HOOP_FLOAT16] = fp16_reduce,
               [HOOP_BFLOAT16] = bf16_reduce,
#endif
               [HOOP_FLOAT32] = fp32_reduce,
               [HOOP_FLOAT64] = fp64_reduce,
               [HP_INT16] = i16_reduce,
               [HP_UINT16] = u16_reduce,
               [HP_BOOL] = bool_reduce},
    .divide = {[HOOP_INT8] = i8_divide,
               [HOOP_UINT8] = u8_divide,
               [HOOP_INT32] = i32_divide,
               [HOOP_UINT32] = u32_divide,
               [HOOP_INT64] = i64_divide,
               [HOOP_UINT64] = u64_divide,
               [HOOP_FLOAT32] = fp32_divide,
               [HOOP_FLOAT64] = fp64_divide,
               [HP_INT16] = i16_divide,
               [HP_UINT16] = u16_divide},
    .mean = {[HOOP_FLOAT16] = fp16_mean,
             [HOOP_BFLOAT16] = bf16_mean,
             [HOOP_FLOAT8E4M3] = e4m3_mean,
             [HOOP_FLOAT8E5M2] = e5m2_mean},
    .decode = {[HOOP_FLOAT16] = fp16_decode,
               [HOOP_FLOAT32] = fp32_decode,
               [HOOP_FLOAT64] = fp64_decode,
               [HOOP_BFLOAT16] = bf16_decode,
               [HOOP_FLOAT8E4M3] = e4m3_decode,
               [HOOP_FLOAT8E5M2] = e5m2_decode,
               [HP_DTYPES] = scaled_decode},
    .encode = {[HOOP_FLOAT16] = fp16_encode,
               [HOOP_FLOAT32] = fp32_encode,
               [HOOP_FLOAT64] = fp64_encode,
               [HOOP_BFLOAT16] = bf16_encode,
               [HOOP_FLOAT8E4M3] = e4m3_encode,
               [HOOP_FLOAT8E5M2] = e5m2_encode,
               [HP_DTYPES] = scaled_encode},
};
