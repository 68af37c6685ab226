/* SPDX-License-Identifier: MIT */
/*
 * scaled: float32 as e4m3 in blocks (HP_SCALED), for each set of loops this CPU can run, against a reference that searches
 * for the scale and then, in a table of all values, for the code. Every code under every scale; under every scale each
 * value, each middle between two, and their neighbours; blocks of zeros, denormals, huge numbers, infinities and NaN;
 * arrays of every length; then the commands.
 */
#include "base/dtype.h"
#include "gpu/host.h"
#include "t/gpu/reference.h"
#include "t/tap/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK = HP_SCALED_BLOCK,
    SCALES = 247,
    MOST = 1100,
    BYTES = MOST + MOST / BLOCK + 1,
    GUARD = 16,
    WORTH_A_LOOK = 4
};

static uint32_t
bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float
float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* The least scale under which no finite value is above 464. */
static int
scale_of(const float *values, size_t count)
{
    int scale = 1;
    for (size_t i = 0; i < count; i++)
        while (isfinite(values[i]) && fabs((double)values[i]) > ldexp(464, scale - 127))
            scale++;
    return scale;
}

static uint8_t
code_of(float value, int scale)
{
    uint32_t code, top = scale == SCALES ? 0x77 : 0x7e;
    if (isnan(value))
        return 0x80;
    if (isinf(value))
        return value < 0 ? 0xff : 0x7f;
    code = ref_encode(HOOP_FLOAT8E4M3, ldexp(fabs((double)value), 127 - scale));
    code = code < top ? code : top;
    return (uint8_t)(code && signbit(value) ? code | 0x80 : code);
}

static float
value_of(uint8_t code, int scale)
{
    if (code == 0x80)
        return NAN;
    if ((code & 0x7f) == 0x7f)
        return code & 0x80 ? -INFINITY : INFINITY;
    return (float)ldexp(ref_decode(HOOP_FLOAT8E4M3, code), scale - 127);
}

static void
encode(uint8_t *out, const float *values, size_t count)
{
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t n = count - at < BLOCK ? count - at : BLOCK;
        int scale = scale_of(values + at, n);
        *out++ = (uint8_t)scale;
        for (size_t i = 0; i < n; i++)
            *out++ = code_of(values[at + i], scale);
    }
}

static void
decode(float *values, const uint8_t *in, size_t count)
{
    int scale = 0;
    for (size_t i = 0; i < count; i++) {
        if (i % BLOCK == 0)
            scale = *in++;
        values[i] = value_of(*in++, scale);
    }
}

static int
same(float wanted, float seen)
{
    return isnan(wanted) ? isnan(seen) : bits_of(wanted) == bits_of(seen);
}

/* How many of these values are encoded, and decoded, in another way than the reference's, or beyond their end. */
static int
wrong_array(const hp_arith *arith, const float *values, size_t count)
{
    uint8_t wanted[BYTES], seen[BYTES + GUARD];
    float back[MOST + GUARD], reference[MOST];
    size_t bytes = (size_t)hp_dtype_bytes(HP_SCALED, count);
    int wrong = 0;
    memset(seen, 0xa5, sizeof(seen));
    memset(back, 0xa5, sizeof(back));
    encode(wanted, values, count);
    arith->encode[hp_dtype_index(HP_SCALED)](seen, values, count);
    for (size_t i = 0; i < bytes + GUARD; i++)
        wrong += seen[i] != (i < bytes ? wanted[i] : 0xa5);
    decode(reference, wanted, count);
    arith->decode[hp_dtype_index(HP_SCALED)](back, wanted, count);
    for (size_t i = 0; i < count + GUARD; i++)
        wrong += i < count ? !same(reference[i], back[i]) : bits_of(back[i]) != 0xa5a5a5a5;
    return wrong;
}

static void
check_codes(const hp_arith *arith)
{
    int wrong = 0;
    for (int scale = 1; scale <= SCALES; scale++) {
        uint8_t blocks[BYTES];
        float values[256], wanted[256];
        for (int i = 0, at = 0; i < 256; i++) {
            if (i % BLOCK == 0)
                blocks[at++] = (uint8_t)scale;
            blocks[at++] = (uint8_t)i;
        }
        decode(wanted, blocks, 256);
        arith->decode[hp_dtype_index(HP_SCALED)](values, blocks, 256);
        for (int i = 0; i < 256; i++)
            if (!same(wanted[i], values[i]) && wrong++ < WORTH_A_LOOK)
                diag("scale %d, code %#x: %a, not %a", scale, (unsigned)i, (double)values[i], (double)wanted[i]);
    }
    is_int(0, wrong, "%s: every code under every scale is its value", arith->name);
}

/* Each value, each middle of two, and their neighbours, beside one that gives their block this scale. */
static void
check_corners(const hp_arith *arith)
{
    int wrong = 0;
    for (int scale = 1; scale <= SCALES; scale++) {
        float values[MOST], corner;
        double most = scale == SCALES ? 255.99998 : 464;
        size_t count = 0;
        for (int step = 0; step <= 2 * 0x7e; step++) {
            double low = ref_decode(HOOP_FLOAT8E4M3, (uint32_t)step / 2), high = step / 2 < 0x7e ? 0 : 480;
            high = high > 0 ? high : ref_decode(HOOP_FLOAT8E4M3, (uint32_t)step / 2 + 1);
            double middle = ldexp(step % 2 ? (low + high) / 2 : low, scale - 127);
            for (int side = -1; side <= 1 && middle <= ldexp(most, scale - 127); side++) {
                if (count % BLOCK == 0)
                    values[count++] = (float)ldexp(most, scale - 127);
                corner = side ? nextafterf((float)middle, side < 0 ? -INFINITY : INFINITY) : (float)middle;
                if (fabs((double)corner) <= ldexp(most, scale - 127))
                    values[count++] = step % 3 ? corner : -corner;
            }
        }
        int here = wrong_array(arith, values, count);
        if (here > 0 && wrong < WORTH_A_LOOK)
            diag("scale %d: %d of %zu", scale, here, count);
        wrong += here;
    }
    is_int(0, wrong, "%s: every value, middle and neighbour under every scale is rounded as it should be", arith->name);
}

static float
element(int data, size_t i)
{
    uint64_t random = tap_random();
    float plain = (float)((double)(random >> 40) / 8388608.0 - 1);
    switch (data) {
    case 0: return plain;
    case 1: return plain * 3.4e38F;
    case 2: return plain * 1e-36F;
    case 3: return plain * 1e-42F;
    case 4: return i % 97 == 0 ? plain * 1e30F : plain;
    case 5: return i % 11 ? plain : NAN;
    case 6: return i % 7 ? plain : copysignf(INFINITY, plain);
    case 7: return i % 2 ? 0.0F : -0.0F;
    case 8: return i % 3 ? (i % 2 ? 3.402823466e38F : -3.3e38F) : plain; /* up to the largest float32 */
    case 9: return i % 2 ? INFINITY : NAN;                               /* nothing finite */
    case 10: return copysignf(expf(6 * plain), plain);
    case 11: return i % 64 == 5 ? plain * 1e6F : plain;
    case 12: return i % 32 == 5 ? plain * 1e6F : plain;
    default: return float_of((uint32_t)random);
    }
}

enum { DATA = 14 };

static void
check_data(const hp_arith *arith)
{
    static float values[MOST];
    int wrong = 0;
    for (int data = 0; data < DATA; data++)
        for (size_t count = 0; count < MOST; count += count < 3 * BLOCK ? 1 : 97) {
            for (size_t i = 0; i < count; i++)
                values[i] = element(data, i);
            int here = wrong_array(arith, values, count);
            if (here > 0 && wrong < WORTH_A_LOOK)
                diag("data %d, %zu elements: %d wrong", data, count, here);
            wrong += here;
        }
    is_int(0, wrong, "%s: arrays of all kinds and lengths", arith->name);
}

/* --- how far a value may be from what arrives --- */

static double
greatest(const float *values, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++)
        most = isfinite(values[i]) ? fmax(most, fabs((double)values[i])) : most;
    return most;
}

/* OCP Microscaling Formats 1.0, 6.3, for MXFP8: the power of two of the greatest magnitude, less e4m3's own. */
static double
squares_of_mxfp8(const float *values, size_t count)
{
    double sum = 0;
    for (size_t at = 0; at < count; at += 32) {
        size_t n = count - at < 32 ? count - at : 32;
        double most = greatest(values + at, n);
        int power = most > 0 ? ilogb(most) - 8 : -127;
        power = power < -127 ? -127 : power;
        for (size_t i = at; i < at + n; i++)
            if (isfinite(values[i])) {
                double magnitude = ldexp(fabs((double)values[i]), -power);
                double left = magnitude - ref_decode(HOOP_FLOAT8E4M3, ref_encode(HOOP_FLOAT8E4M3, magnitude));
                sum += left * ldexp(left, 2 * power);
            }
    }
    return sum;
}

/* The bound of hoop_allreduce(3) for one rounding. */
static void
check_error(void)
{
    static const char *const names[DATA] = {"random",
                                            "huge",
                                            "tiny",
                                            "denormal",
                                            "outliers",
                                            "NaN",
                                            "infinities",
                                            [10] = "of all magnitudes",
                                            "one in 64 large",
                                            "one in 32 large"};
    static float values[MOST], back[MOST];
    static uint8_t blocks[BYTES];
    const hp_arith *arith = hp_arith_best();
    for (int data = 0; data < DATA; data++) {
        int wrong = 0;
        double ours = 0, theirs = 0;
        for (int round = 0; round < 20; round++) {
            for (size_t i = 0; i < MOST; i++)
                values[i] = element(data, i);
            arith->encode[hp_dtype_index(HP_SCALED)](blocks, values, MOST);
            arith->decode[hp_dtype_index(HP_SCALED)](back, blocks, MOST);
            theirs += squares_of_mxfp8(values, MOST);
            for (size_t i = 0; i < MOST; i++) {
                size_t first = i / BLOCK * BLOCK, n = MOST - first < BLOCK ? MOST - first : BLOCK;
                double value = (double)values[i], most = greatest(values + first, n), left = value - (double)back[i];
                double bound = fmax(fmax(fabs(value) / 16, ldexp(most, -17)), ldexp(1, -136));
                wrong += isfinite(value) ? !(fabs(left) <= bound) : !same(values[i], back[i]);
                ours += isfinite(value) ? left * left : 0;
            }
        }
        if (names[data])
            ok(wrong == 0 && ours <= 1.02 * theirs, "%s: within the bound, and the error is %.3f of MXFP8's",
               names[data], theirs > 0 ? sqrt(ours / theirs) : 1.0);
    }
}

/* What the belt asks for: see lib/slot.c. */
static void
check_commands(const hp_arith *arith)
{
    static float a[MOST], b[MOST], sum[MOST], left[MOST], want[MOST], seen[MOST];
    static uint8_t in[2][BYTES], out[BYTES], wanted[BYTES];
    int wrong = 0;
    for (int data = 0; data < DATA; data++) {
        hp_command command = {.elem = HOOP_FLOAT32, .wire = HP_SCALED, .op = HOOP_AVG, .sources = 2, .count = MOST};
        for (size_t i = 0; i < MOST; i++) {
            a[i] = element(data, i);
            b[i] = element(data, i);
        }
        encode(in[0], a, MOST);
        encode(in[1], b, MOST);
        decode(a, in[0], MOST);
        decode(b, in[1], MOST);
        for (size_t i = 0; i < MOST; i++)
            sum[i] = (a[i] + b[i]) / 3;
        encode(wanted, sum, MOST);
        command.src[0] = (hp_operand){in[0], 1};
        command.src[1] = (hp_operand){in[1], 1};
        command.destinations = 1;
        command.divisor = 3;
        command.dst[0] = (hp_operand){out, 1};
        hp_host_run_with(arith, &command);
        wrong += memcmp(wanted, out, (size_t)hp_dtype_bytes(HP_SCALED, MOST)) != 0;
        command.dst[0] = (hp_operand){seen, 0};
        hp_host_run_with(arith, &command);
        for (size_t i = 0; i < MOST; i++)
            wrong += !same(sum[i], seen[i]);
        command = (hp_command){.elem = HOOP_FLOAT32, .wire = HP_SCALED, .sources = 2, .destinations = 2, .count = MOST};
        command.remainder = 1;
        memcpy(left, b, sizeof(left));
        command.src[0].ptr = a;
        command.src[1].ptr = command.dst[1].ptr = left;
        command.dst[0] = (hp_operand){out, 1};
        for (size_t i = 0; i < MOST; i++)
            sum[i] = a[i] + b[i];
        encode(wanted, sum, MOST);
        decode(want, wanted, MOST);
        hp_host_run_with(arith, &command);
        wrong += memcmp(wanted, out, (size_t)hp_dtype_bytes(HP_SCALED, MOST)) != 0;
        for (size_t i = 0; i < MOST; i++)
            wrong += !same(isfinite(sum[i]) ? sum[i] - want[i] : 0, left[i]);
    }
    is_int(0, wrong, "%s: sums of blocks, into blocks and not, and what rounding takes away", arith->name);
}

int
main(void)
{
    plan_lazy();
    tap_seed();
    is_uint(0, hp_dtype_bytes(HP_SCALED, 0), "nothing takes no bytes");
    is_uint(2, hp_dtype_bytes(HP_SCALED, 1), "a code and a scale");
    is_uint(BLOCK + 1, hp_dtype_bytes(HP_SCALED, BLOCK), "a block");
    is_uint(BLOCK + 3, hp_dtype_bytes(HP_SCALED, BLOCK + 1), "a block, and one that is shorter");
    for (const hp_arith *const *arith = hp_ariths; *arith; arith++) {
        if (!(*arith)->usable()) {
            diag("this CPU cannot run the %s loops", (*arith)->name);
            continue;
        }
        check_codes(*arith);
        check_corners(*arith);
        check_data(*arith);
        check_commands(*arith);
    }
    check_error();
    return tap_failures() != 0;
}
