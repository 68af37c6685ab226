/* SPDX-License-Identifier: MIT */
/*
 * kernel_types: what the kernels compute with: element types, and the reductions of two of their values. The bits are
 * gpu/host.c's, except a NaN's payload and the sign of a zero from MIN or MAX: conversions are codec.h's own text, and
 * nvcc's flags forbid contraction and ask for exact division.
 */
#ifndef HP_KERNEL_TYPES_CUH
#define HP_KERNEL_TYPES_CUH

#include "gpu/codec.h"
#include "hoop.h"

namespace
{

/* --- element types: how a value is stored, in which type it is computed, the conversions --- */

template <bool Long> struct size_class {
    typedef uint32_t type;
};

template <> struct size_class<true> {
    typedef uint64_t type;
};

template <class Stored>
struct whole { /* integers: computed without sign, so that they wrap; compared and divided with sign */
    typedef Stored stored;
    typedef Stored value;
    static __device__ value get(stored s)
    {
        return s;
    }
    static __device__ stored put(value v)
    {
        return v;
    }
    static __device__ value sum(value a, value b)
    {
        return (value)((uint64_t)a + (uint64_t)b);
    }
    static __device__ value prod(value a, value b)
    {
        return (value)((uint64_t)a * (uint64_t)b);
    }
    static __device__ __noinline__ value divide(value v, uint32_t divisor) /* toward zero */
    {
        typedef typename size_class<(sizeof(Stored) > 4)>::type magnitude;
        bool negative = (Stored)-1 < (Stored)1 && v < (value)1 && v != 0;
        magnitude quotient = (negative ? (magnitude)0 - (magnitude)v : (magnitude)v) / divisor;
        return (value)(negative ? (magnitude)0 - quotient : quotient);
    }
};

struct truth : whole<uint8_t> { /* a bool: any byte but 0 is true, and a result is 0 or 1 */
    static __device__ value get(stored s)
    {
        return s != 0;
    }
};

template <class Stored, class Value> struct real {
    typedef Stored stored;
    typedef Value value;
    static __device__ value sum(value a, value b)
    {
        return a + b;
    }
    static __device__ value prod(value a, value b)
    {
        return a * b;
    }
    static __device__ __noinline__ value divide(value v, uint32_t divisor)
    {
        return v / (value)divisor;
    }
};

template <class Stored> struct plain : real<Stored, Stored> {
    static __device__ Stored get(Stored s)
    {
        return s;
    }
    static __device__ Stored put(Stored v)
    {
        return v;
    }
};

/* The GPU converts float16 in one instruction: to nearest even, denormals kept, NaN to 0x7fff, as codec.h does. */
struct half : real<uint16_t, float> {
#ifdef __CUDA_ARCH__
    static __device__ float get(uint16_t s)
    {
        float v;
        asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(s));
        return v;
    }
    static __device__ uint16_t put(float v)
    {
        uint16_t s;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(s) : "f"(v));
        return s;
    }
#else
    static float get(uint16_t s)
    {
        return hp_fp16_decode(s);
    }
    static uint16_t put(float v)
    {
        return hp_fp16_encode(v);
    }
#endif
};

struct brain : real<uint16_t, float> {
    static __device__ float get(uint16_t s)
    {
        return hp_bf16_decode(s);
    }
    static __device__ uint16_t put(float v)
    {
        return hp_bf16_encode(v);
    }
};

struct e4m3 : real<uint8_t, float> {
    static __device__ float get(uint8_t s)
    {
        return hp_e4m3_decode(s);
    }
    static __device__ uint8_t put(float v)
    {
        return hp_e4m3_encode(v);
    }
};

struct e5m2 : real<uint8_t, float> {
    static __device__ float get(uint8_t s)
    {
        return hp_e5m2_decode(s);
    }
    static __device__ uint8_t put(float v)
    {
        return hp_e5m2_encode(v);
    }
};

struct e5m2_mean : e5m2 { /* an infinity stays infinite */
    static __device__ uint8_t put(float v)
    {
        return hp_e5m2_encode_mean(v);
    }
};

/* --- reductions: a NaN, which is never equal to itself, is always the result --- */

template <class Type> struct sum_of {
    typedef typename Type::value value;
    static __device__ value of(value a, value b, uint8_t)
    {
        return Type::sum(a, b);
    }
};

template <class Type> struct prod_of {
    typedef typename Type::value value;
    static __device__ value of(value a, value b, uint8_t)
    {
        return Type::prod(a, b);
    }
};

template <class Type> struct max_of {
    typedef typename Type::value value;
    static __device__ value of(value a, value b, uint8_t)
    {
        return a != a || a > b ? a : b;
    }
};

template <class Type> struct min_of {
    typedef typename Type::value value;
    static __device__ value of(value a, value b, uint8_t)
    {
        return a != a || a < b ? a : b;
    }
};

/*
 * Bits of integers, and bools: their sum and the greatest are or, a product and the least are and. The operation is
 * chosen at run time without a branch: of 1 and 1 it makes the bit of `both`, of 1 and 0 that of `one`.
 */
template <class Type> struct bits_of {
    typedef typename Type::value value;
    static __device__ value of(value a, value b, uint8_t op)
    {
        value both = op == HOOP_BXOR ? (value)0 : (value) ~(value)0;
        value one = op == HOOP_BAND || op == HOOP_PROD || op == HOOP_MIN ? (value)0 : (value) ~(value)0;
        return (value)((a & b & both) | ((a ^ b) & one));
    }
};

/*
 * The operation is chosen at run time. For 8-bit floats: their conversions take much longer than the choice, and one
 * kernel per operation would fill the library.
 */
template <class Type> struct any_of {
    typedef typename Type::value value;
    static __device__ value of(value a, value b, uint8_t op)
    {
        switch (op) {
        case HOOP_PROD: return Type::prod(a, b);
        case HOOP_MAX: return max_of<Type>::of(a, b, op);
        case HOOP_MIN: return min_of<Type>::of(a, b, op);
        default: return Type::sum(a, b);
        }
    }
};

} // namespace

#endif
