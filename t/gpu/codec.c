/* SPDX-License-Identifier: MIT */
/*
 * codec: every code of every small float against a slow reference, and every place where rounding could go wrong: each
 * value, each middle between two values, and their neighbours in float32. Then the same for arrays, for each set of
 * loops this CPU can run.
 */
#include "gpu/codec.h"

#include "gpu/arith.h"
#include "t/gpu/reference.h"
#include "t/tap/tap.h"

#include <math.h>
#include <stdlib.h>

typedef struct small {
    hoop_dtype dtype;
    uint32_t codes;
} small;

static const small smalls[] = {
    {HOOP_FLOAT16, 0x10000},
    {HOOP_BFLOAT16, 0x10000},
    {HOOP_FLOAT8E4M3, 0x100},
    {HOOP_FLOAT8E5M2, 0x100},
};

enum { SMALLS = 4, RANDOM = 1000000, WORTH_A_LOOK = 4 };

static float *corners; /* floats worth encoding */
static size_t corner_count;

static float
decode(hoop_dtype dtype, uint32_t code)
{
    switch (dtype) {
    case HOOP_FLOAT16: return hp_fp16_decode((uint16_t)code);
    case HOOP_BFLOAT16: return hp_bf16_decode((uint16_t)code);
    case HOOP_FLOAT8E4M3: return hp_e4m3_decode((uint8_t)code);
    default: return hp_e5m2_decode((uint8_t)code);
    }
}

static uint32_t
encode(hoop_dtype dtype, float value)
{
    switch (dtype) {
    case HOOP_FLOAT16: return hp_fp16_encode(value);
    case HOOP_BFLOAT16: return hp_bf16_encode(value);
    case HOOP_FLOAT8E4M3: return hp_e4m3_encode(value);
    default: return hp_e5m2_encode(value);
    }
}

static void
check_decode(const small *s)
{
    int wrong = 0;
    for (uint32_t code = 0; code < s->codes; code++) {
        double wanted = ref_decode(s->dtype, code);
        float seen = decode(s->dtype, code);
        if (isnan(wanted) ? isnan(seen) && (hp_float_bits(seen) & 0x400000) != 0
                          : wanted == (double)seen && !signbit(wanted) == !signbit(seen))
            continue;
        if (wrong++ < WORTH_A_LOOK)
            diag("code %#x: wanted %g, saw %g", code, wanted, (double)seen);
    }
    is_int(0, wrong, "%s: all codes decode to their values, NaN to a quiet NaN", hp_dtype_name(s->dtype));
}

static void
check_round_trip(const small *s)
{
    int wrong = 0;
    for (uint32_t code = 0; code < s->codes; code++) {
        double value = ref_decode(s->dtype, code);
        wrong +=
            !isnan(value) && !(isinf(value) && s->codes == 0x100) && encode(s->dtype, decode(s->dtype, code)) != code;
    }
    is_int(0, wrong, "%s: all values survive a round trip", hp_dtype_name(s->dtype));
}

static void
check_encode(const small *s)
{
    int wrong = 0;
    for (size_t i = 0; i < corner_count; i++) {
        uint32_t wanted = ref_encode(s->dtype, (double)corners[i]);
        uint32_t seen = encode(s->dtype, corners[i]);
        if (wanted != seen && wrong++ < WORTH_A_LOOK)
            diag("%a: wanted %#x, saw %#x", (double)corners[i], wanted, seen);
    }
    is_int(0, wrong, "%s: %zu floats are rounded as the reference rounds them", hp_dtype_name(s->dtype), corner_count);
}

static void
check_promises(void)
{
    is_uint(0x7c00, hp_fp16_encode(65520.0F), "float16: 65520 is a tie and becomes infinity");
    is_uint(0x7bff, hp_fp16_encode(65519.996F), "float16: below it is the largest value");
    is_uint(0x0001, hp_fp16_encode(0x1p-24F), "float16: the smallest denormal");
    is_uint(0x0000, hp_fp16_encode(0x1p-25F), "float16: half of it is a tie and becomes 0");
    is_uint(0x8001, hp_fp16_encode(-0x1.000002p-25F), "float16: a little more does not");
    is_uint(0x7f80, hp_bf16_encode(3.4e38F), "bfloat16: 3.4e38 becomes infinity");
    is_uint(0x7fff, hp_bf16_encode(hp_float_from_bits(0x7f800001)), "bfloat16: NaN does not become infinity");
    is_uint(0x7e, hp_e4m3_encode(INFINITY), "e4m3: infinity saturates");
    is_uint(0xfe, hp_e4m3_encode(-1e30F), "e4m3: overflow saturates");
    is_uint(0x7e, hp_e4m3_encode(464.0F), "e4m3: so does the tie above the largest value");
    is_uint(0x7b, hp_e5m2_encode(INFINITY), "e5m2: infinity saturates");
    is_uint(0x7c, hp_e5m2_encode_mean(INFINITY), "e5m2: in a mean it stays");
    is_uint(0xfc, hp_e5m2_encode_mean(-INFINITY), "e5m2: ... on either side");
    is_uint(0x7b, hp_e5m2_encode_mean(1e30F), "e5m2: nothing else becomes one");
    is_uint(0x7f, hp_e5m2_encode_mean(NAN), "e5m2: nor does a NaN");
    is_uint(0xfb, hp_e5m2_encode(-61440.0F), "e5m2: so does the tie above the largest value");
    is_uint(0x7f, hp_e4m3_encode(-NAN), "e4m3: NaN of any sign is 0x7f");
    is_uint(0x7f, hp_e5m2_encode(NAN), "e5m2: NaN is 0x7f");
    is_uint(0x80, hp_e5m2_encode(-0.0F), "the sign of zero stays");
}

/* Arrays, whole and with a rest of every length. */
static void
check_arrays(const hp_arith *arith, const small *s)
{
    size_t size = s->codes == 0x100 ? 1 : 2;
    char *codes = malloc(corner_count * size);
    float *values = malloc(s->codes * sizeof(*values));
    int wrong = 0;
    for (size_t from = 0; from < 70 && from < corner_count; from++) {
        size_t count = from == 0 ? corner_count : 70 - from;
        arith->encode[s->dtype](codes, corners + from, count);
        for (size_t i = 0; i < count; i++)
            wrong += ref_get(s->dtype, codes, i) != encode(s->dtype, corners[from + i]);
    }
    is_int(0, wrong, "%s, %s: arrays are encoded as single values are", arith->name, hp_dtype_name(s->dtype));
    for (uint32_t code = 0; code < s->codes; code++)
        ref_put(s->dtype, codes, code, code);
    wrong = 0;
    for (size_t from = 0; from < 70; from++) {
        size_t count = from == 0 ? s->codes : 70 - from;
        arith->decode[s->dtype](values, codes + from * size, count);
        for (size_t i = 0; i < count; i++)
            wrong += hp_float_bits(values[i]) != hp_float_bits(decode(s->dtype, (uint32_t)(from + i)));
    }
    is_int(0, wrong, "%s, %s: and decoded", arith->name, hp_dtype_name(s->dtype));
    free(codes);
    free(values);
}

static void
add_corner(double value)
{
    float middle = (float)value;
    corners[corner_count++] = middle;
    corners[corner_count++] = nextafterf(middle, INFINITY);
    corners[corner_count++] = nextafterf(middle, -INFINITY);
}

static void
collect_corners(void)
{
    corners = malloc((6 * 0x20200 + RANDOM + 100) * sizeof(*corners));
    if (!corners)
        bail("no memory for the floats to try");
    for (int s = 0; s < SMALLS; s++) {
        for (uint32_t code = 0; code < smalls[s].codes - 1; code++) {
            double here = ref_decode(smalls[s].dtype, code);
            double next = ref_decode(smalls[s].dtype, code + 1);
            if (!isfinite(here))
                continue;
            add_corner(here);
            if (isfinite(next))
                add_corner((here + next) / 2);
        }
    }
    for (int i = 0; i < RANDOM; i++)
        corners[corner_count++] = hp_float_from_bits((uint32_t)tap_random());
    add_corner(INFINITY);
    add_corner(-(double)INFINITY);
    add_corner((double)NAN);
    add_corner(65520);
    add_corner(464);
    add_corner(61440);
    for (uint32_t bit = 0; bit < 23; bit++) /* signalling NaNs, and quiet ones with both signs */
        corners[corner_count++] = hp_float_from_bits(UINT32_C(0x7f800000) | UINT32_C(1) << bit | (bit & 1) << 31);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    collect_corners();
    for (int s = 0; s < SMALLS; s++) {
        check_decode(&smalls[s]);
        check_round_trip(&smalls[s]);
        check_encode(&smalls[s]);
    }
    check_promises();
    for (const hp_arith *const *arith = hp_ariths; *arith; arith++) {
        for (int s = 0; s < SMALLS && (*arith)->usable(); s++)
            check_arrays(*arith, &smalls[s]);
    }
    free(corners);
    return 0;
}
