/* SPDX-License-Identifier: MIT */
/*
 * kernels: the GPU's arithmetic. nvcc makes a fatbin of this file, which gpu/cuda_launch.c loads; cuda_kernel.h has the
 * kernels' names and their parameter.
 *
 * All operands are walked by the same index, so an operand may be exactly another one. If all operands have the same
 * offset from 16-byte boundaries, an array is a head, packs of 16 bytes, and a tail; else it is single elements, which
 * neighbouring threads still access side by side.
 */
#include "base/dtype.h"
#include "gpu/cuda_kernel.h"
#include "gpu/kernel_types.cuh"
#include "hoop.h"

namespace
{
/* --- walking arrays --- */
/* Sixteen bytes: one instruction loads or stores them. */
struct alignas(16) quad {
    uint32_t a, b, c, d;
};

template <class Stored> union pack {
    quad whole;
    Stored each[16 / sizeof(Stored)];
    __device__ pack()
    {
    }
};

/*
 * A command on arrays of `Stored`; all threads of the grid walk them together. `Rule::apply(left, right)` gets an
 * element of src[0] and one of src[1], if there is a src[1], and replaces them by the elements of dst[0] and dst[1].
 */
template <class Stored, class Rule> struct walk {
    const Stored *a, *b;
    Stored *x, *y;
    uint64_t count, thread, threads;
    Rule rule;

    __device__ walk(const hp_kernel_args &args, bool second, Rule what)
        : a((const Stored *)args.src[0]), b(second ? (const Stored *)args.src[1] : nullptr), x((Stored *)args.dst[0]),
          y(args.destinations == 2 ? (Stored *)args.dst[1] : nullptr), count(args.count),
          thread((uint64_t)blockIdx.x * blockDim.x + threadIdx.x), threads((uint64_t)gridDim.x * blockDim.x), rule(what)
    {
    }

    __device__ bool alike() const
    {
        uintptr_t at = (uintptr_t)x;
        uintptr_t apart = at ^ (uintptr_t)a;
        if (b != nullptr)
            apart |= at ^ (uintptr_t)b;
        if (y != nullptr)
            apart |= at ^ (uintptr_t)y;
        return (apart & 15) == 0;
    }

    /* Up to `Depth` elements, `threads` apart: all are loaded before the first is used. */
    template <int Depth> __device__ void singles(uint64_t first, uint64_t end) const
    {
        Stored left[Depth], right[Depth];
#pragma unroll
        for (int d = 0; d < Depth; d++) {
            uint64_t i = first + d * threads;
            left[d] = i < end ? a[i] : Stored();
            right[d] = i < end && b != nullptr ? b[i] : left[d];
        }
#pragma unroll
        for (int d = 0; d < Depth; d++) {
            uint64_t i = first + d * threads;
            rule.apply(left[d], right[d]);
            if (i < end)
                x[i] = left[d];
            if (i < end && y != nullptr)
                y[i] = right[d];
        }
    }

    /* The same for packs, from element `head` on. */
    template <int Depth> __device__ void packs(uint64_t head, uint64_t first, uint64_t end) const
    {
        const int per_pack = 16 / sizeof(Stored);
        pack<Stored> left[Depth], right[Depth];
#pragma unroll
        for (int d = 0; d < Depth; d++) {
            uint64_t i = first + d * threads;
            if (i < end) {
                left[d].whole = ((const quad *)(a + head))[i];
                right[d].whole = b != nullptr ? ((const quad *)(b + head))[i] : left[d].whole;
            }
        }
#pragma unroll
        for (int d = 0; d < Depth; d++) {
            uint64_t i = first + d * threads;
            if (i >= end)
                break;
#pragma unroll
            for (int e = 0; e < per_pack; e++)
                rule.apply(left[d].each[e], right[d].each[e]);
            ((quad *)(x + head))[i] = left[d].whole;
            if (y != nullptr)
                ((quad *)(y + head))[i] = right[d].whole;
        }
    }

    __device__ void run() const
    {
        const uint64_t per_pack = 16 / sizeof(Stored);
        const int deep = sizeof(Stored) >= 4 ? 2 : 1;
        uint64_t head = count, full = 0;
        if (alike()) {
            head = (16 - ((uintptr_t)x & 15)) % 16 / sizeof(Stored);
            head = head < count ? head : count;
            full = (count - head) / per_pack;
        }
        for (uint64_t i = thread; i < full; i += deep * threads)
            packs<deep>(head, i, full);
        singles_between(0, head, head + full * per_pack, count);
    }

    /* Elements [from, to) and [again, end). */
    __device__ void singles_between(uint64_t from, uint64_t to, uint64_t again, uint64_t end) const
    {
        const int deep = sizeof(Stored) >= 4 ? 4 : 2;
        for (int part = 0; part < 2; part++) {
            for (uint64_t i = from + thread; i < to; i += deep * threads)
                singles<deep>(i, to);
            from = again;
            to = end;
        }
    }
};

/* --- rules --- */

/* src[0] op src[1], / divisor, to every destination. With one source `Op` is not used. */
template <class Type, class Op> struct reduction {
    typedef typename Type::stored stored;
    bool two;
    uint8_t op;
    uint32_t divisor;

    __device__ stored combine(stored left, stored right) const
    {
        typename Type::value value = Type::get(left);
        if (two)
            value = Op::of(value, Type::get(right), op);
        if (divisor > 1)
            value = Type::divide(value, divisor);
        return Type::put(value);
    }

    __device__ void apply(stored &left, stored &right) const
    {
        left = right = combine(left, right);
    }
};

/* The mean of two means (device.h, `ranks`). The intrinsics keep nvcc from contracting product and sum. */
template <class Type> struct mean {
    typedef typename Type::stored stored;
    float weight[2];

    __device__ stored combine(stored left, stored right) const
    {
        float a = __fmul_rn(Type::get(left), weight[0]), b = __fmul_rn(Type::get(right), weight[1]);
        return Type::put(__fadd_rn(a, b));
    }

    __device__ void apply(stored &left, stored &right) const
    {
        left = right = combine(left, right);
    }
};

template <class Rule> struct called : Rule {
    typedef typename Rule::stored stored;
    static __device__ __noinline__ stored out_of_line(called self, stored left, stored right)
    {
        return self.combine(left, right);
    }

    __device__ void apply(stored &left, stored &right) const
    {
        left = right = out_of_line(*this, left, right);
    }
};

/* Bytes as they are: src[0] to every destination, or two arrays exchanged. */
template <class Stored> struct movement {
    bool exchange;

    __device__ void apply(Stored &left, Stored &right) const
    {
        Stored first = left;
        if (exchange)
            left = right;
        right = first;
    }
};

template <class Type, class Rule>
__device__ inline void
reduce(const hp_kernel_args &args)
{
    Rule rule;
    rule.two = args.sources == 2;
    rule.op = args.op;
    rule.divisor = args.divisor;
    walk<typename Type::stored, Rule>(args, rule.two, rule).run();
}

template <class Type, class Rule>
__device__ inline void
average(const hp_kernel_args &args)
{
    Rule rule;
    float all = (float)(args.ranks[0] + args.ranks[1]);
    for (int k = 0; k < 2; k++)
        rule.weight[k] = __fdiv_rn((float)args.ranks[k], all);
    walk<typename Type::stored, Rule>(args, true, rule).run();
}

template <class Stored>
__device__ inline void
move(const hp_kernel_args &args)
{
    movement<Stored> rule = {args.exchange != 0};
    walk<Stored, movement<Stored>>(args, args.exchange != 0, rule).run();
}

/* --- a wire type other than the element type: every value is converted to float32 and back, as in gpu/host.c --- */

__device__ inline int
size_of(uint8_t type)
{
    return type == HOOP_FLOAT64 ? 8 : type == HOOP_FLOAT32 ? 4 : type == HOOP_FLOAT16 || type == HOOP_BFLOAT16 ? 2 : 1;
}

__device__ inline uint64_t
load(uint8_t type, const void *array, uint64_t i)
{
    switch (size_of(type)) {
    case 8: return ((const uint64_t *)array)[i];
    case 4: return ((const uint32_t *)array)[i];
    case 2: return ((const uint16_t *)array)[i];
    default: return ((const uint8_t *)array)[i];
    }
}

__device__ inline void
store(uint8_t type, void *array, uint64_t i, uint64_t bits)
{
    switch (size_of(type)) {
    case 8: ((uint64_t *)array)[i] = bits; break;
    case 4: ((uint32_t *)array)[i] = (uint32_t)bits; break;
    case 2: ((uint16_t *)array)[i] = (uint16_t)bits; break;
    default: ((uint8_t *)array)[i] = (uint8_t)bits; break;
    }
}

__device__ __noinline__ float
decode(uint8_t type, uint64_t bits)
{
    double wide;
    memcpy(&wide, &bits, sizeof(wide));
    switch (type) {
    case HOOP_FLOAT16: return half::get((uint16_t)bits);
    case HOOP_BFLOAT16: return brain::get((uint16_t)bits);
    case HOOP_FLOAT32: return hp_float_from_bits((uint32_t)bits);
    case HOOP_FLOAT64: return (float)wide;
    case HOOP_FLOAT8E4M3: return e4m3::get((uint8_t)bits);
    default: return e5m2::get((uint8_t)bits);
    }
}

__device__ __noinline__ uint64_t
encode(uint8_t type, float value)
{
    double wide = (double)value;
    uint64_t bits;
    memcpy(&bits, &wide, sizeof(bits));
    switch (type) {
    case HOOP_FLOAT16: return half::put(value);
    case HOOP_BFLOAT16: return brain::put(value);
    case HOOP_FLOAT32: return hp_float_bits(value);
    case HOOP_FLOAT64: return bits;
    case HOOP_FLOAT8E4M3: return e4m3::put(value);
    default: return e5m2::put(value);
    }
}

__device__ inline uint64_t
convert(uint8_t from, uint8_t to, uint64_t bits)
{
    return from == to ? bits : encode(to, decode(from, bits));
}

/* The type of each operand: the wire type where its tag is set, else the element type. */
struct types {
    uint8_t src[2], dst[2];

    __device__ explicit types(const hp_kernel_args &args)
    {
        for (int k = 0; k < 2; k++) {
            src[k] = args.src_wire[k] ? args.wire : args.elem;
            dst[k] = args.dst_wire[k] ? args.wire : args.elem;
        }
    }
};

__device__ inline void
combine_wire(const hp_kernel_args &args, const types &type, uint64_t i)
{
    typedef plain<float> real;
    float value = decode(type.src[0], load(type.src[0], args.src[0], i));
    if (args.sources == 2)
        value = any_of<real>::of(value, decode(type.src[1], load(type.src[1], args.src[1], i)), args.op);
    if (args.divisor > 1)
        value = real::divide(value, args.divisor);
    if (args.remainder) {
        uint64_t rounded = encode(args.wire, value);
        float left = value - decode(args.wire, rounded), times = args.divisor > 1 ? (float)args.divisor : 1;
        store(type.dst[0], args.dst[0], i, rounded);
        store(type.dst[1], args.dst[1], i, encode(type.dst[1], left - left == 0 ? left * times : 0));
        return;
    }
    /* The other destination gets the value as it was rounded for the wire. */
    if (args.dst_wire[0] || (args.destinations == 2 && args.dst_wire[1]))
        value = decode(args.wire, encode(args.wire, value));
    store(type.dst[0], args.dst[0], i, encode(type.dst[0], value));
    if (args.destinations == 2)
        store(type.dst[1], args.dst[1], i, encode(type.dst[1], value));
}

/* Both are loaded before one is stored. */
__device__ inline void
exchange_wire(const hp_kernel_args &args, const types &type, uint64_t i)
{
    uint64_t a = load(type.src[0], args.src[0], i), b = load(type.src[1], args.src[1], i);
    store(type.dst[0], args.dst[0], i, convert(type.src[1], type.dst[0], b));
    store(type.dst[1], args.dst[1], i, convert(type.src[0], type.dst[1], a));
}

/* --- e4m3 in blocks --- */

/* Where a block begins in each operand: floats, or a scale with codes. A thread has a block for itself. */
struct scaled_block {
    const uint8_t *src[2];
    uint8_t *dst[2];
    float factor[2]; /* of the sources, whose scales may be overwritten */
    const hp_kernel_args &args;

    static __device__ uint64_t offset(bool wire, uint64_t first)
    {
        return wire ? first + first / HP_SCALED_BLOCK : first * sizeof(float);
    }

    __device__ scaled_block(const hp_kernel_args &all, uint64_t first) : args(all)
    {
        for (int k = 0; k < 2; k++) {
            src[k] = (const uint8_t *)args.src[k] + offset(args.src_wire[k], first);
            dst[k] = (uint8_t *)args.dst[k] + offset(args.dst_wire[k], first);
            factor[k] = k < args.sources && args.src_wire[k] ? hp_scaled_factor(src[k][0]) : 0;
        }
    }

    __device__ float source(int k, uint64_t i) const
    {
        return args.src_wire[k] ? hp_scaled_decode(src[k][1 + i], factor[k]) : ((const float *)src[k])[i];
    }

    __device__ float value(uint64_t i) const
    {
        typedef plain<float> real;
        float all = source(0, i);
        if (args.sources == 2)
            all = any_of<real>::of(all, source(1, i), args.op);
        return args.divisor > 1 ? real::divide(all, args.divisor) : all;
    }

    __device__ uint8_t scale(uint64_t count) const
    {
        int32_t most = HP_SCALED_NONE;
        for (uint64_t i = 0; i < count; i++) {
            int32_t rank = hp_scaled_rank(value(i));
            most = rank > most ? rank : most;
        }
        return hp_scaled_scale(most);
    }

    __device__ void run(uint64_t count) const
    {
        bool encodes = args.dst_wire[0] || (args.destinations == 2 && args.dst_wire[1]);
        uint8_t byte = encodes ? scale(count) : 1;
        float inverse = hp_scaled_inverse(byte), limit = hp_scaled_limit(byte), times = hp_scaled_factor(byte);
        for (uint64_t i = 0; i < count; i++) {
            float all = value(i), kept = all;
            uint8_t code = hp_scaled_encode(all, inverse, limit);
            if (encodes && args.destinations == 2)
                kept = hp_scaled_decode(code, times);
            if (args.remainder) {
                float left = all - kept;
                kept = left - left == 0 ? left * (args.divisor > 1 ? (float)args.divisor : 1) : 0;
            }
            for (int k = 0; k < args.destinations; k++)
                if (args.dst_wire[k])
                    dst[k][1 + i] = code;
                else
                    ((float *)dst[k])[i] = kept;
        }
        for (int k = 0; k < args.destinations; k++)
            if (args.dst_wire[k])
                dst[k][0] = byte;
    }
};

} // namespace

/* --- kernels, one for each type and reduction --- */

#define HP_REDUCE(op, name, type, ...)                                                                                 \
    extern "C" __global__ void __launch_bounds__(HP_KERNEL_THREADS) hp_##op##_##name(const hp_kernel_args args)        \
    {                                                                                                                  \
        reduce<type, __VA_ARGS__>(args);                                                                               \
    }
#define HP_TYPE(name, ...)                                                                                             \
    HP_REDUCE(sum, name, __VA_ARGS__, reduction<__VA_ARGS__, sum_of<__VA_ARGS__>>)                                     \
    HP_REDUCE(prod, name, __VA_ARGS__, reduction<__VA_ARGS__, prod_of<__VA_ARGS__>>)                                   \
    HP_REDUCE(max, name, __VA_ARGS__, reduction<__VA_ARGS__, max_of<__VA_ARGS__>>)                                     \
    HP_REDUCE(min, name, __VA_ARGS__, reduction<__VA_ARGS__, min_of<__VA_ARGS__>>)
#define HP_BITS(name, ...) HP_REDUCE(bits, name, __VA_ARGS__, reduction<__VA_ARGS__, bits_of<__VA_ARGS__>>)
#define HP_SMALL(name, ...) HP_REDUCE(any, name, __VA_ARGS__, called<reduction<__VA_ARGS__, any_of<__VA_ARGS__>>>)
#define HP_MEAN(name, type, ...)                                                                                       \
    extern "C" __global__ void __launch_bounds__(HP_KERNEL_THREADS) hp_mean_##name(const hp_kernel_args args)          \
    {                                                                                                                  \
        average<type, __VA_ARGS__>(args);                                                                              \
    }
#define HP_COPY(size, stored)                                                                                          \
    extern "C" __global__ void __launch_bounds__(HP_KERNEL_THREADS) hp_copy_##size(const hp_kernel_args args)          \
    {                                                                                                                  \
        move<stored>(args);                                                                                            \
    }

HP_TYPE(int8, whole<int8_t>)
HP_TYPE(uint8, whole<uint8_t>)
HP_TYPE(int16, whole<int16_t>)
HP_TYPE(uint16, whole<uint16_t>)
HP_TYPE(int32, whole<int32_t>)
HP_TYPE(uint32, whole<uint32_t>)
HP_TYPE(int64, whole<int64_t>)
HP_TYPE(uint64, whole<uint64_t>)
HP_TYPE(float16, half)
HP_TYPE(float32, plain<float>)
HP_TYPE(float64, plain<double>)
HP_TYPE(bfloat16, brain)
HP_SMALL(float8e4m3, e4m3)
HP_SMALL(float8e5m2, e5m2)
HP_REDUCE(any, bool, truth, reduction<truth, bits_of<truth>>)
HP_BITS(1, whole<uint8_t>)
HP_BITS(2, whole<uint16_t>)
HP_BITS(4, whole<uint32_t>)
HP_BITS(8, whole<uint64_t>)
HP_MEAN(float16, half, mean<half>)
HP_MEAN(bfloat16, brain, mean<brain>)
HP_MEAN(float8e4m3, e4m3, called<mean<e4m3>>)
HP_MEAN(float8e5m2, e5m2, called<mean<e5m2_mean>>)
HP_COPY(1, uint8_t)
HP_COPY(2, uint16_t)
HP_COPY(4, uint32_t)
HP_COPY(8, uint64_t)

extern "C" __global__ void
__launch_bounds__(HP_KERNEL_THREADS) hp_wire(const hp_kernel_args args)
{
    uint64_t threads = (uint64_t)gridDim.x * blockDim.x;
    types type(args);
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < args.count; i += threads) {
        if (args.exchange)
            exchange_wire(args, type, i);
        else
            combine_wire(args, type, i);
    }
}

extern "C" __global__ void
__launch_bounds__(HP_KERNEL_THREADS) hp_scaled(const hp_kernel_args args)
{
    uint64_t step = (uint64_t)gridDim.x * blockDim.x * HP_SCALED_BLOCK, left;
    uint64_t first = ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) * HP_SCALED_BLOCK;
    for (; first < args.count; first += step) {
        left = args.count - first;
        scaled_block(args, first).run(left < HP_SCALED_BLOCK ? left : HP_SCALED_BLOCK);
    }
}

/* --- kernels of one thread, in place of stream memory operations --- */

extern "C" __global__ void
hp_stamp(const hp_kernel_args args)
{
    __threadfence_system();
    *(volatile uint64_t *)args.dst[0] = args.value;
}

extern "C" __global__ void
hp_gate(const hp_kernel_args args)
{
    while ((int32_t)(*(const volatile uint32_t *)args.src[0] - (uint32_t)args.value) < 0)
        __nanosleep(1000);
    __threadfence_system();
}
