/* SPDX-License-Identifier: MIT */
/* reduce_avx2: the loops for x86 CPUs with AVX2 and F16C (Intel since 2013, AMD since 2015). */
#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#include <stdint.h>

#define TARGET __attribute__((target("avx2,f16c")))
#define ARITH hp_arith_avx2
#define ARITH_NAME "avx2"
#define VECTORS
#define BY_HAND TARGET static inline __attribute__((always_inline))

enum { BLOCK = 16 };

typedef __m256 vec;

typedef struct {
    vec x, y;
} hp_pair;

static int
usable(void)
{
    unsigned a, b, c = 0, d;
    return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) != 0;
}

/*
 * Tested on the bits: clang 14 turns a comparison of converted float16 into sixteen comparisons of single float16. Only
 * the sign bit of each lane is used.
 */
BY_HAND vec
vec_nan(vec v)
{
    __m256i magnitude = _mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(0x7fffffff));
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(0x7f800000)));
}

BY_HAND vec
vec_all(float f)
{
    return _mm256_set1_ps(f);
}

/* MAXPS and MINPS give b when either is NaN; the blend puts a's NaN back. */
BY_HAND vec
vec_max(vec a, vec b)
{
    return _mm256_blendv_ps(_mm256_max_ps(a, b), a, vec_nan(a));
}

BY_HAND vec
vec_min(vec a, vec b)
{
    return _mm256_blendv_ps(_mm256_min_ps(a, b), a, vec_nan(a));
}

BY_HAND hp_pair
vec_get(const float *p)
{
    return (hp_pair){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

BY_HAND void
vec_put(float *p, hp_pair pair)
{
    _mm256_storeu_ps(p, pair.x);
    _mm256_storeu_ps(p + 8, pair.y);
}

BY_HAND hp_pair
fp16_load(const uint16_t *p)
{
    return (hp_pair){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
                     _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8)))};
}

BY_HAND __m128i
fp16_half(vec v)
{
    vec nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffe000)); /* converts to 0x7fff */
    v = _mm256_blendv_ps(v, nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

BY_HAND void
fp16_store(uint16_t *p, hp_pair pair)
{
    _mm_storeu_si128((__m128i *)p, fp16_half(pair.x));
    _mm_storeu_si128((__m128i *)(p + 8), fp16_half(pair.y));
}

/* x: the elements at even places, y: those at odd places, which already lie where a float has its upper half. */
BY_HAND hp_pair
bf16_load(const uint16_t *p)
{
    __m256i both = _mm256_loadu_si256((const __m256i *)p);
    __m256i odd = _mm256_and_si256(both, _mm256_set1_epi32((int)0xffff0000));
    return (hp_pair){_mm256_castsi256_ps(_mm256_slli_epi32(both, 16)), _mm256_castsi256_ps(odd)};
}

/* Rounded, in the upper half of each lane; the lower half is undefined. */
BY_HAND __m256i
bf16_upper(vec v)
{
    __m256i bits = _mm256_castps_si256(v);
    __m256i even = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), even);
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fff0000), nan);
}

BY_HAND void
bf16_store(uint16_t *p, hp_pair pair)
{
    __m256i even = _mm256_srli_epi32(bf16_upper(pair.x), 16);
    _mm256_storeu_si256((__m256i *)p, _mm256_blend_epi16(even, bf16_upper(pair.y), 0xaa));
}

#include "gpu/reduce_loops.h"
#endif
