/* SPDX-License-Identifier: MIT */
/* reference: see reference.h. It need not be fast, and must not compute as the library does. */
#include "t/gpu/reference.h"

#include "base/dtype.h"
#include "t/tap/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct format {
    int mantissa, bias;
    uint32_t sign, largest, infinity, nan; /* codes; infinity 0: overflow saturates */
    double *values;                        /* of the codes without sign, as if there were neither infinity nor NaN */
} format;

static format formats[HP_NCCL_DTYPES] = {
    [HOOP_FLOAT16] = {10, 15, 0x8000, 0x7bff, 0x7c00, 0x7fff, NULL},
    [HOOP_BFLOAT16] = {7, 127, 0x8000, 0x7f7f, 0x7f80, 0x7fff, NULL},
    [HOOP_FLOAT8E4M3] = {3, 7, 0x80, 0x7e, 0, 0x7f, NULL},
    [HOOP_FLOAT8E5M2] = {2, 15, 0x80, 0x7b, 0, 0x7f, NULL},
};

static double
value_of(const format *f, uint32_t code)
{
    int exponent = (int)(code >> f->mantissa);
    double mantissa = code & ((1U << f->mantissa) - 1);
    if (exponent == 0)
        return ldexp(mantissa, 1 - f->bias - f->mantissa);
    return ldexp(mantissa + ldexp(1, f->mantissa), exponent - f->bias - f->mantissa);
}

static const format *
format_of(hoop_dtype dtype)
{
    format *f = &formats[dtype];
    if (!hp_dtype_is_float(dtype) || f->sign == 0)
        bail("type %d is no small float", (int)dtype);
    if (f->values)
        return f;
    f->values = calloc(f->sign, sizeof(*f->values));
    if (!f->values)
        bail("no memory for a table");
    for (uint32_t code = 0; code < f->sign; code++)
        f->values[code] = value_of(f, code);
    return f;
}

double
ref_decode(hoop_dtype dtype, uint32_t code)
{
    const format *f = format_of(dtype);
    double sign = code & f->sign ? -1 : 1;
    code &= ~f->sign;
    if (code <= f->largest)
        return sign * f->values[code];
    if (dtype != HOOP_FLOAT8E4M3 && code == f->largest + 1)
        return sign * (double)INFINITY;
    return (double)NAN;
}

uint32_t
ref_encode(hoop_dtype dtype, double value)
{
    const format *f = format_of(dtype);
    uint32_t sign = signbit(value) ? f->sign : 0;
    uint32_t step = 1U << f->mantissa, low = 0, high = step, beyond = f->largest + 1;
    double below, above;
    if (isnan(value))
        return f->nan;
    value = fabs(value);
    if (value >= f->values[beyond])
        return sign | (f->infinity ? f->infinity : f->largest);
    if (value >= f->values[step]) { /* no denormal: the codes of its exponent */
        low = (uint32_t)(ilogb(value) + f->bias) << f->mantissa;
        high = low + step < beyond ? low + step : beyond;
    }
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        *(value >= f->values[middle] ? &low : &high) = middle;
    }
    below = value - f->values[low];
    above = f->values[high] - value;
    if (above < below || (above == below && (high & 1) == 0))
        low = high;
    if (low > f->largest)
        low = f->infinity ? f->infinity : f->largest;
    return sign | low;
}

/* memcpy of 1, 2, 4 or 8 bytes; of a length that the compiler does not know it is a call, and most of a test's time. */
static void
copy_element(void *to, const void *from, size_t size)
{
    switch (size) {
    case 1: memcpy(to, from, 1); break;
    case 2: memcpy(to, from, 2); break;
    case 4: memcpy(to, from, 4); break;
    default: memcpy(to, from, 8); break;
    }
}

uint64_t
ref_get(hoop_dtype dtype, const void *array, size_t index)
{
    size_t size = hp_dtype_size(dtype);
    uint64_t element = 0;
    copy_element(&element, (const char *)array + index * size, size);
    return element;
}

void
ref_put(hoop_dtype dtype, void *array, size_t index, uint64_t element)
{
    size_t size = hp_dtype_size(dtype);
    copy_element((char *)array + index * size, &element, size);
}

static double
float_get(hoop_dtype dtype, uint64_t element)
{
    float single;
    double value;
    if (dtype == HOOP_FLOAT64) {
        memcpy(&value, &element, sizeof(value));
        return value;
    }
    if (dtype == HOOP_FLOAT32) {
        memcpy(&single, &element, sizeof(single));
        return (double)single;
    }
    return ref_decode(dtype, (uint32_t)element);
}

static uint64_t
float_put(hoop_dtype dtype, double value)
{
    float single = (float)value;
    uint64_t element = 0;
    if (dtype == HOOP_FLOAT64)
        memcpy(&element, &value, sizeof(value));
    else if (dtype == HOOP_FLOAT32)
        memcpy(&element, &single, sizeof(single));
    else
        element = ref_encode(dtype, value);
    return element;
}

/* float32 is computed in double and rounded after each operation, which gives what one rounding would: 53 >= 2 x 24
 * + 2. */
static double
rounded(hoop_dtype dtype, double value)
{
    return dtype == HOOP_FLOAT64 ? value : (double)(float)value;
}

static double
float_op(hoop_dtype dtype, hoop_op op, double a, double b)
{
    if (isnan(a) || isnan(b))
        return (double)NAN;
    switch (op) {
    case HOOP_PROD: return rounded(dtype, a * b);
    case HOOP_MAX: return fmax(a, b);
    case HOOP_MIN: return fmin(a, b);
    default: return rounded(dtype, a + b);
    }
}

static int
is_signed(hoop_dtype dtype)
{
    return dtype == HOOP_INT8 || dtype == HOOP_INT16 || dtype == HOOP_INT32 || dtype == HOOP_INT64;
}

static __int128
integer_get(hoop_dtype dtype, uint64_t element)
{
    __int128 range = (__int128)1 << (8 * hp_dtype_size(dtype));
    __int128 value = element & (uint64_t)(range - 1);
    return is_signed(dtype) && value >= range / 2 ? value - range : value;
}

/* Bit by bit, by how many of the two are 1. */
static __int128
bits_op(hoop_op op, uint64_t a, uint64_t b)
{
    __int128 result = 0;
    for (int bit = 0; bit < 64; bit++) {
        uint64_t ones = (a >> bit) % 2 + (b >> bit) % 2;
        int set = op == HOOP_BAND ? ones == 2 : op == HOOP_BOR ? ones > 0 : ones == 1;
        result += (__int128)set << bit;
    }
    return result;
}

static __int128
integer_op(hoop_op op, __int128 a, __int128 b)
{
    switch (op) {
    case HOOP_PROD: return (__int128)((unsigned __int128)a * (unsigned __int128)b);
    case HOOP_MAX: return a > b ? a : b;
    case HOOP_MIN: return a < b ? a : b;
    case HOOP_BAND:
    case HOOP_BOR:
    case HOOP_BXOR: return bits_op(op, (uint64_t)a, (uint64_t)b);
    default: return a + b;
    }
}

/* How many of the two are true decides. */
static uint64_t
bool_op(hoop_op op, uint64_t a, uint64_t b)
{
    int trues = (a ? 1 : 0) + (b ? 1 : 0);
    if (op == HOOP_BXOR)
        return trues == 1;
    return trues >= (op == HOOP_PROD || op == HOOP_MIN || op == HOOP_BAND ? 2 : 1);
}

static uint64_t
integer_reduce(hoop_dtype dtype, hoop_op op, int sources, uint64_t x, uint64_t y, uint32_t divisor)
{
    __int128 range = (__int128)1 << (8 * hp_dtype_size(dtype));
    __int128 value = integer_get(dtype, x);
    if (sources == 2)
        value = integer_get(dtype, (uint64_t)integer_op(op, value, integer_get(dtype, y)));
    if (divisor > 1)
        value = value / (__int128)divisor;
    return (uint64_t)value & (uint64_t)(range - 1);
}

uint64_t
ref_reduce(hoop_dtype dtype, hoop_op op, int sources, uint64_t a, uint64_t b, uint32_t divisor)
{
    double value;
    if (sources == 1 && divisor <= 1)
        return a;
    if (dtype == HOOP_BOOL)
        return bool_op(op, a, b);
    if (!hp_dtype_is_float(dtype))
        return integer_reduce(dtype, op, sources, a, b, divisor);
    value = float_get(dtype, a);
    if (sources == 2)
        value = float_op(dtype, op, value, float_get(dtype, b));
    if (divisor > 1)
        value = rounded(dtype, value / divisor);
    return float_put(dtype, value);
}

/* The float32 nearest to a double, ties to even: cut by hand to 24 bits, or to those that a denormal has. */
static double
cut_to_single(double value)
{
    int exponent, keep;
    double whole, scaled, rest;
    if (value == 0 || isnan(value) || isinf(value))
        return value;
    frexp(value, &exponent);
    keep = exponent < -125 ? 149 : 24 - exponent; /* the last bit kept weighs 2^-keep */
    scaled = ldexp(fabs(value), keep);
    whole = floor(scaled);
    rest = scaled - whole;
    if (rest > 0.5 || (rest == 0.5 && fmod(whole, 2) == 1))
        whole += 1;
    whole = ldexp(whole, -keep);
    return copysign(whole >= ldexp(1, 128) ? (double)INFINITY : whole, value);
}

uint64_t
ref_mean(hoop_dtype dtype, uint32_t p, uint32_t q, uint64_t a, uint64_t b)
{
    const format *f = format_of(dtype);
    double n = (double)p + (double)q, x = ref_decode(dtype, (uint32_t)a), y = ref_decode(dtype, (uint32_t)b);
    double left = cut_to_single(x * cut_to_single((double)p / n)); /* 8 to 11 bits times 24: exact */
    double right = cut_to_single(y * cut_to_single((double)q / n));
    double mean = cut_to_single(left + right);
    if (isinf(mean) && dtype == HOOP_FLOAT8E5M2)
        return (mean < 0 ? f->sign : 0) | (f->largest + 1);
    return ref_encode(dtype, mean);
}

uint64_t
ref_convert(hoop_dtype from, hoop_dtype to, uint64_t a)
{
    return from == to ? a : float_put(to, (double)(float)float_get(from, a));
}

int
ref_same(hoop_dtype dtype, uint64_t wanted, uint64_t seen, int any_zero)
{
    double x, y;
    if (wanted == seen)
        return 1;
    if (!hp_dtype_is_float(dtype))
        return 0;
    x = float_get(dtype, wanted);
    y = float_get(dtype, seen);
    /* Small floats have one NaN, so theirs must have been equal above. */
    if (isnan(x))
        return isnan(y) && hp_dtype_size(dtype) >= 4;
    return any_zero && x == 0 && y == 0;
}

static uint64_t
special(hoop_dtype dtype, uint64_t which)
{
    static const double values[] = {0.0, -0.0, 1, -1, 5e-324, 1e-45, -6e-8, 1e-38, 65504, -448, 3.4e38, 1.7e308};
    uint64_t top = UINT64_C(1) << (8 * hp_dtype_size(dtype) - 1);
    if (!hp_dtype_is_float(dtype)) {
        const uint64_t integers[] = {0, 1, 2 * top - 1, top, top - 1, top + 1};
        return integers[which % 6];
    }
    switch (which % 16) {
    case 0: return float_put(dtype, (double)INFINITY);
    case 1: return float_put(dtype, -(double)INFINITY);
    case 2: return float_put(dtype, (double)NAN);
    case 3: return 2 * top - 1; /* a negative NaN */
    default: return float_put(dtype, values[which % 16 - 4]);
    }
}

uint64_t
ref_random(hoop_dtype dtype)
{
    size_t bits = 8 * hp_dtype_size(dtype);
    uint64_t element = tap_random();
    if (tap_random() % 8 == 0)
        return special(dtype, element);
    return bits == 64 ? element : element & ((UINT64_C(1) << bits) - 1);
}
