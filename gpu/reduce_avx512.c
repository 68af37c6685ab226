/* SPDX-License-Identifier: MIT */
/* reduce_avx512: the loops for x86 CPUs with AVX-512 F, BW, DQ and VL (Intel servers since 2017, AMD since 2022). */
#ifdef __x86_64__
#include <immintrin.h>
#include <stdint.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define ARITH hp_arith_avx512
#define ARITH_NAME "avx512"
#define VECTORS
#define BY_HAND TARGET static inline __attribute__((always_inline))

enum { BLOCK = 32 };

typedef __m512 vec;

typedef struct {
    vec x, y;
} hp_pair;

static int
usable(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

/*
 * Tested by the class (quiet or signalling NaN): clang 14 turns a comparison of converted float16 into comparisons of
 * single float16.
 */
BY_HAND __mmask16
vec_nan(vec v)
{
    return _mm512_fpclass_ps_mask(v, 0x81);
}

BY_HAND vec
vec_all(float f)
{
    return _mm512_set1_ps(f);
}

/* MAXPS and MINPS give b when either is NaN; the blend puts a's NaN back. */
BY_HAND vec
vec_max(vec a, vec b)
{
    return _mm512_mask_mov_ps(_mm512_max_ps(a, b), vec_nan(a), a);
}

BY_HAND vec
vec_min(vec a, vec b)
{
    return _mm512_mask_mov_ps(_mm512_min_ps(a, b), vec_nan(a), a);
}

BY_HAND hp_pair
vec_get(const float *p)
{
    return (hp_pair){_mm512_loadu_ps(p), _mm512_loadu_ps(p + 16)};
}

BY_HAND void
vec_put(float *p, hp_pair pair)
{
    _mm512_storeu_ps(p, pair.x);
    _mm512_storeu_ps(p + 16, pair.y);
}

BY_HAND hp_pair
fp16_load(const uint16_t *p)
{
    return (hp_pair){_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)),
                     _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(p + 16)))};
}

BY_HAND __m256i
fp16_half(vec v)
{
    __mmask16 number = (__mmask16)~vec_nan(v);
    return _mm512_mask_cvtps_ph(_mm256_set1_epi16(0x7fff), number, v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

BY_HAND void
fp16_store(uint16_t *p, hp_pair pair)
{
    _mm256_storeu_si256((__m256i *)p, fp16_half(pair.x));
    _mm256_storeu_si256((__m256i *)(p + 16), fp16_half(pair.y));
}

/* x: the elements at even places, y: those at odd places, which already lie where a float has its upper half. */
BY_HAND hp_pair
bf16_load(const uint16_t *p)
{
    __m512i both = _mm512_loadu_si512(p);
    __m512i odd = _mm512_and_si512(both, _mm512_set1_epi32((int)0xffff0000));
    return (hp_pair){_mm512_castsi512_ps(_mm512_slli_epi32(both, 16)), _mm512_castsi512_ps(odd)};
}

/* Rounded, in the upper half of each lane; the lower half is undefined. */
BY_HAND __m512i
bf16_upper(vec v)
{
    __m512i bits = _mm512_castps_si512(v);
    __m512i rounded = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
    __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
    rounded = _mm512_mask_add_epi32(rounded, odd, rounded, _mm512_set1_epi32(1));
    return _mm512_mask_mov_epi32(rounded, vec_nan(v), _mm512_set1_epi32(0x7fff0000));
}

BY_HAND void
bf16_store(uint16_t *p, hp_pair pair)
{
    __m512i even = _mm512_srli_epi32(bf16_upper(pair.x), 16);
    _mm512_storeu_si512(p, _mm512_mask_mov_epi16(even, 0xaaaaaaaa, bf16_upper(pair.y)));
}

#include "gpu/reduce_loops.h"
#endif
