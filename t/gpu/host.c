/* SPDX-License-Identifier: MIT */
/*
 * host: every type, reduction, count, alignment and way of sharing arrays, against the slow reference, for each set of
 * loops this CPU can run; then wire types, exchange, the floating-point environment and the queue.
 */
#include "gpu/host.h"

#include "base/dtype.h"
#include "base/err.h"
#include "t/gpu/reference.h"
#include "t/tap/tap.h"

#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4099, GUARD = 64, SHIFTS = 3, POISON = 0xa5, ARRAYS = 4, WORTH_A_LOOK = 4 };

static const size_t counts[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 511, 513, 1000, MOST};
static const size_t shifts[SHIFTS] = {0, 1, 3}; /* elements past an address that is a multiple of 64 */

typedef struct named_op {
    const char *name;
    hoop_op op;
    uint32_t divisor, ranks[2];
} named_op;

static const named_op ops[] = {
    {"sum", HOOP_SUM, 0, {0}},          {"prod", HOOP_PROD, 0, {0}},    {"max", HOOP_MAX, 0, {0}},
    {"min", HOOP_MIN, 0, {0}},          {"avg of 1", HOOP_AVG, 1, {0}}, {"avg of 2", HOOP_AVG, 2, {0}},
    {"avg of 3", HOOP_AVG, 3, {0}},     {"avg of 5", HOOP_AVG, 5, {0}}, {"avg of 8", HOOP_AVG, 8, {0}},
    {"avg of 257", HOOP_AVG, 257, {0}}, {"band", HOOP_BAND, 0, {0}},    {"bor", HOOP_BOR, 0, {0}},
    {"bxor", HOOP_BXOR, 0, {0}},
};

enum { OPS = sizeof(ops) / sizeof(*ops) };

/* Of 16- and 8-bit floats. */
static const named_op means[] = {
    {"mean of 1 and 1", HOOP_AVG, 0, {1, 1}},     {"mean of 2 and 1", HOOP_AVG, 0, {2, 1}},
    {"mean of 1 and 6", HOOP_AVG, 0, {1, 6}},     {"mean of 4 and 3", HOOP_AVG, 0, {4, 3}},
    {"mean of 32 and 32", HOOP_AVG, 0, {32, 32}}, {"mean of 63 and 1", HOOP_AVG, 0, {63, 1}},
    {"mean of 999 and 1", HOOP_AVG, 0, {999, 1}},
};

enum { MEANS = sizeof(means) / sizeof(*means) };

/* Which array (0, 1: the sources; 2, 3: others) each operand is; dst[1] -1: one destination. */
typedef struct sharing {
    const char *name;
    int sources, src[2], dst[2];
} sharing;

static const sharing pairs[] = {
    {"apart", 2, {0, 1}, {2, -1}},
    {"into the first", 2, {0, 1}, {0, -1}},
    {"into the second", 2, {0, 1}, {1, -1}},
    {"two apart", 2, {0, 1}, {2, 3}},
    {"first and another", 2, {0, 1}, {0, 3}},
    {"another and second", 2, {0, 1}, {2, 1}},
    {"first and second", 2, {0, 1}, {0, 1}},
    {"second and first", 2, {0, 1}, {1, 0}},
    {"with itself", 2, {0, 0}, {2, -1}},
    {"with itself, in place", 2, {0, 0}, {0, -1}},
};

static const sharing singles[] = {
    {"copy", 1, {0, 0}, {2, -1}},
    {"copy in place", 1, {0, 0}, {0, -1}},
    {"two copies", 1, {0, 0}, {2, 3}},
    {"copy and itself", 1, {0, 0}, {2, 0}},
};

static uint64_t *input[2];            /* random elements */
static uint64_t *result;              /* wanted, input[0] with input[1] */
static uint64_t *result_self;         /* wanted, input[0] with itself */
static unsigned char *memory[ARRAYS]; /* guard, shift, elements, guard */

static size_t
memory_bytes(void)
{
    return 2 * GUARD + (MOST + shifts[SHIFTS - 1]) * 8;
}

static void
allocate(void)
{
    for (int i = 0; i < ARRAYS; i++)
        memory[i] = aligned_alloc(64, (memory_bytes() + 63) / 64 * 64);
    input[0] = calloc(MOST, sizeof(**input));
    input[1] = calloc(MOST, sizeof(**input));
    result = calloc(MOST, sizeof(*result));
    result_self = calloc(MOST, sizeof(*result_self));
    if (!memory[ARRAYS - 1] || !result_self)
        bail("no memory for the arrays");
}

static void
release(void)
{
    for (int i = 0; i < ARRAYS; i++)
        free(memory[i]);
    free(input[0]);
    free(input[1]);
    free(result);
    free(result_self);
}

static void *
array(hoop_dtype dtype, int which, size_t shift)
{
    return memory[which] + GUARD + (shift + (size_t)which) % 4 * hp_dtype_size(dtype);
}

/* elements NULL: only poison. */
static void
fill_array(hoop_dtype dtype, int which, size_t shift, const uint64_t *elements, size_t count)
{
    unsigned char *begin = array(dtype, which, shift);
    memset(begin - GUARD, POISON, 2 * GUARD + count * hp_dtype_size(dtype));
    for (size_t i = 0; elements && i < count; i++)
        ref_put(dtype, begin, i, elements[i]);
}

static int
touched(const unsigned char *from, const unsigned char *to)
{
    int bytes = 0;
    while (from < to)
        bytes += *from++ != POISON;
    return bytes;
}

/* Elements that are not as wanted, and bytes before and behind them that were touched. */
static int
check_array(hoop_dtype dtype, int which, size_t shift, const uint64_t *wanted, size_t count, int any_zero)
{
    const unsigned char *begin = array(dtype, which, shift);
    const unsigned char *end = begin + count * hp_dtype_size(dtype);
    int wrong = touched(begin - GUARD, begin) + touched(end, end + GUARD);
    if (!wanted)
        return wrong + touched(begin, end);
    for (size_t i = 0; i < count; i++)
        wrong += !ref_same(dtype, wanted[i], ref_get(dtype, begin, i), any_zero);
    return wrong;
}

static const uint64_t *
wanted_of(const sharing *s, int which)
{
    if (which == s->dst[0] || which == s->dst[1])
        return s->sources == 2 && s->src[1] == 0 ? result_self : result;
    return which < 2 ? input[which] : NULL;
}

static int
run_shared(const hp_arith *arith, hoop_dtype dtype, const named_op *op, const sharing *s, size_t shift, size_t count)
{
    hp_command command = {.elem = dtype, .wire = dtype, .op = op->op, .sources = s->sources, .divisor = op->divisor};
    command.ranks[0] = op->ranks[0];
    command.ranks[1] = op->ranks[1];
    int any_zero = op->op == HOOP_MAX || op->op == HOOP_MIN;
    int wrong = 0;
    for (int which = 0; which < ARRAYS; which++)
        fill_array(dtype, which, shift, which < 2 ? input[which] : NULL, count);
    command.destinations = s->dst[1] < 0 ? 1 : 2;
    command.count = count;
    for (int k = 0; k < 2; k++) {
        command.src[k].ptr = array(dtype, s->src[k], shift);
        command.dst[k].ptr = s->dst[k] < 0 ? NULL : array(dtype, s->dst[k], shift);
    }
    hp_host_run_with(arith, &command);
    for (int which = 0; which < ARRAYS; which++)
        wrong += check_array(dtype, which, shift, wanted_of(s, which), count, any_zero);
    return wrong;
}

static uint64_t
wanted_element(hoop_dtype dtype, const named_op *op, int sources, uint64_t a, uint64_t b)
{
    if (op->ranks[0] > 0)
        return ref_mean(dtype, op->ranks[0], op->ranks[1], a, b);
    return ref_reduce(dtype, op->op, sources, a, b, op->divisor);
}

static void
check_sharings(const hp_arith *arith, hoop_dtype dtype, const named_op *op, const sharing *all, size_t many)
{
    int wrong = 0;
    for (size_t i = 0; i < MOST; i++) {
        result[i] = wanted_element(dtype, op, all->sources, input[0][i], input[1][i]);
        result_self[i] = wanted_element(dtype, op, all->sources, input[0][i], input[0][i]);
    }
    for (size_t c = 0; c < sizeof(counts) / sizeof(*counts); c++) {
        for (size_t f = 0; f < many * SHIFTS; f++) {
            int here;
            if (counts[c] > 100 && tap_random() % 8 != 0)
                continue; /* of long arrays only some, by the seed, to save time */
            here = run_shared(arith, dtype, op, &all[f / SHIFTS], shifts[f % SHIFTS], counts[c]);
            if (here > 0 && wrong++ < WORTH_A_LOOK)
                diag("%s, %zu elements, shift %zu: %d wrong", all[f / SHIFTS].name, counts[c], shifts[f % SHIFTS],
                     here);
        }
    }
    is_int(0, wrong, "%s, %s, %s%s", arith->name, hp_dtype_name(dtype), op->name,
           all->sources == 1 ? ", one source" : "");
}

static void
check_type(const hp_arith *arith, hoop_dtype dtype)
{
    for (size_t i = 0; i < MOST; i++) {
        input[0][i] = ref_random(dtype);
        input[1][i] = ref_random(dtype);
    }
    for (size_t o = 0; o < OPS; o++)
        if (hp_op_applies(ops[o].op, dtype))
            check_sharings(arith, dtype, &ops[o], pairs, sizeof(pairs) / sizeof(*pairs));
    for (size_t o = 0; o < MEANS && hp_narrow_index(dtype) >= 0; o++)
        check_sharings(arith, dtype, &means[o], pairs, sizeof(pairs) / sizeof(*pairs));
    for (size_t o = 4; o < OPS && ops[o].op == HOOP_AVG && dtype != HOOP_BOOL; o += 2)
        check_sharings(arith, dtype, &ops[o], singles, sizeof(singles) / sizeof(*singles));
}

/*
 * Wire types. Tags: the operands in the wire type. A destination in the wire type determines the value of the other
 * destination, which is in the element type.
 */
typedef struct tagging {
    const char *name;
    int sources, src_wire[2], destinations, dst_wire[2];
    uint32_t divisor;
    int remainder;
} tagging;

static const tagging taggings[] = {
    {"send", 1, {0, 0}, 1, {1, 0}, 0, 0},
    {"recvReduceSend", 2, {1, 0}, 1, {1, 0}, 0, 0},
    {"recvReduceCopySend", 2, {1, 0}, 2, {1, 0}, 3, 0},
    {"the same, destinations swapped", 2, {0, 1}, 2, {0, 1}, 2, 0},
    {"recvCopySend", 1, {1, 0}, 1, {0, 0}, 0, 0},
    {"verbatim and decoded", 1, {1, 0}, 2, {1, 0}, 0, 0},
    {"recvReduce, nothing sent", 2, {1, 0}, 1, {0, 0}, 5, 0},
    {"the remainder", 1, {0, 0}, 2, {1, 0}, 0, 1},
    {"the remainder of two", 2, {0, 0}, 2, {1, 0}, 0, 1},
    {"the remainder of a mean", 1, {0, 0}, 2, {1, 0}, 3, 1},
};

static uint64_t
narrow(hoop_dtype type, uint64_t single)
{
    return ref_convert(HOOP_FLOAT32, type, single);
}

/* What rounding to the wire takes from a float32, times the divisor; both as bits. */
static uint64_t
left_of(hoop_dtype wire, uint64_t single, uint32_t divisor)
{
    uint32_t bits = (uint32_t)single;
    double rounded = ref_decode(wire, (uint32_t)ref_convert(HOOP_FLOAT32, wire, single));
    float value, left;
    memcpy(&value, &bits, sizeof(value));
    left = isfinite(value) && isfinite(rounded) ? (float)((double)value - rounded) : 0;
    left *= divisor > 1 ? (float)divisor : 1;
    memcpy(&bits, &left, sizeof(bits));
    return bits;
}

static int
run_tagged(const hp_arith *arith, hoop_dtype elem, hoop_dtype wire, const tagging *t, size_t count)
{
    hp_command command = {.elem = elem, .wire = wire, .op = t->divisor ? HOOP_AVG : HOOP_SUM, .divisor = t->divisor};
    hoop_dtype types[ARRAYS];
    int encodes = t->destinations == 2 && (t->dst_wire[0] || t->dst_wire[1]);
    int wrong = 0;
    command.sources = t->sources;
    command.destinations = t->destinations;
    command.remainder = t->remainder;
    command.count = count;
    for (int k = 0; k < 2; k++) {
        command.src[k].wire = t->src_wire[k];
        command.dst[k].wire = t->dst_wire[k];
        types[k] = t->src_wire[k] ? wire : elem;
        types[2 + k] = t->dst_wire[k] ? wire : elem;
        command.src[k].ptr = array(types[k], k, 1);
        command.dst[k].ptr = array(types[2 + k], 2 + k, 1);
    }
    for (size_t i = 0; i < count; i++) {
        input[0][i] = ref_random(types[0]);
        input[1][i] = ref_random(types[1]);
    }
    for (int which = 0; which < ARRAYS; which++)
        fill_array(types[which], which, 1, which < 2 ? input[which] : NULL, count);
    hp_host_run_with(arith, &command);
    for (int k = 0; k < t->destinations; k++) {
        for (size_t i = 0; i < count; i++) {
            uint64_t a = ref_convert(types[0], HOOP_FLOAT32, input[0][i]);
            uint64_t b = ref_convert(types[1], HOOP_FLOAT32, input[1][i]);
            uint64_t sum = ref_reduce(HOOP_FLOAT32, command.op, t->sources, a, b, t->divisor);
            if (t->remainder && k == 1)
                sum = left_of(wire, sum, t->divisor);
            else if (encodes)
                sum = ref_convert(wire, HOOP_FLOAT32, narrow(wire, sum));
            result[i] = narrow(types[2 + k], sum);
        }
        wrong += check_array(types[2 + k], 2 + k, 1, result, count, 0);
    }
    wrong += check_array(types[0], 0, 1, input[0], count, 0);
    wrong += check_array(types[1], 1, 1, input[1], count, 0);
    return wrong;
}

static void
check_wires(const hp_arith *arith)
{
    static const hoop_dtype elems[] = {HOOP_FLOAT32, HOOP_FLOAT64, HOOP_FLOAT16, HOOP_BFLOAT16};
    static const hoop_dtype wires[] = {HOOP_FLOAT16, HOOP_BFLOAT16, HOOP_FLOAT8E4M3, HOOP_FLOAT8E5M2};
    for (size_t e = 0; e < 4; e++) {
        for (size_t w = 0; w < 4; w++) {
            int wrong = 0;
            for (size_t t = 0; t < sizeof(taggings) / sizeof(*taggings) && elems[e] != wires[w]; t++) {
                if (taggings[t].remainder && elems[e] != HOOP_FLOAT32)
                    continue;
                for (size_t c = 0; c < sizeof(counts) / sizeof(*counts); c++) {
                    int here = run_tagged(arith, elems[e], wires[w], &taggings[t], counts[c]);
                    if (here > 0 && wrong++ < WORTH_A_LOOK)
                        diag("%s, %zu elements: %d wrong", taggings[t].name, counts[c], here);
                }
            }
            is_int(0, wrong, "%s, %s on the wire as %s", arith->name, hp_dtype_name(elems[e]), hp_dtype_name(wires[w]));
        }
    }
}

/* One element of a mean over p + q ranks, by the loops. */
static uint64_t
mean_of(const hp_arith *arith, hoop_dtype dtype, uint32_t p, uint32_t q, uint64_t a, uint64_t b)
{
    hp_command command = {.elem = dtype, .wire = dtype, .op = HOOP_AVG, .sources = 2, .destinations = 1, .count = 1};
    uint64_t mean = 0;
    command.ranks[0] = p;
    command.ranks[1] = q;
    command.src[0].ptr = &a;
    command.src[1].ptr = &b;
    command.dst[0].ptr = &mean;
    hp_host_run_with(arith, &command);
    return mean;
}

/* Every element of an 8-bit float with every other. */
static void
check_every_mean(const hp_arith *arith, hoop_dtype dtype)
{
    static const uint32_t ranks[][2] = {{1, 1}, {2, 1}, {1, 4}, {7, 9}, {63, 1}};
    static uint8_t a[1 << 16], b[1 << 16], mean[1 << 16];
    int wrong = 0;
    for (size_t i = 0; i < sizeof(a); i++) {
        a[i] = (uint8_t)i;
        b[i] = (uint8_t)(i >> 8);
    }
    for (size_t r = 0; r < sizeof(ranks) / sizeof(*ranks); r++) {
        hp_command command = {.elem = dtype, .wire = dtype, .op = HOOP_AVG, .sources = 2, .destinations = 1};
        memcpy(command.ranks, ranks[r], sizeof(command.ranks));
        command.count = sizeof(a);
        command.src[0].ptr = a;
        command.src[1].ptr = b;
        command.dst[0].ptr = mean;
        hp_host_run_with(arith, &command);
        for (size_t i = 0; i < sizeof(a); i++)
            wrong += mean[i] != ref_mean(dtype, ranks[r][0], ranks[r][1], a[i], b[i]);
    }
    is_int(0, wrong, "%s, %s: the mean of every element and every other", arith->name, hp_dtype_name(dtype));
}

/*
 * The manual's bound relies on this: a mean lies between its two operands, so it never overflows, and the mean of equal
 * operands is the operand.
 */
static void
check_bounds(const hp_arith *arith, hoop_dtype dtype)
{
    int wrong = 0, overflown = 0;
    for (int i = 0; i < 200000; i++) {
        uint32_t p = 1 + (uint32_t)(tap_random() % 200), q = 1 + (uint32_t)(tap_random() % 200);
        uint64_t a = ref_random(dtype), b = i % 4 == 0 ? a : ref_random(dtype);
        double x = ref_decode(dtype, (uint32_t)a), y = ref_decode(dtype, (uint32_t)b);
        double mean = ref_decode(dtype, (uint32_t)mean_of(arith, dtype, p, q, a, b));
        wrong += x == x && y == y && x - x == 0 && y - y == 0 && !(mean >= fmin(x, y) && mean <= fmax(x, y));
        overflown += (x != x || y != y) && mean == mean;
        overflown += x - x != 0 && y - y == 0 && memcmp(&x, &mean, sizeof(x)) != 0 && x == x;
    }
    is_int(0, wrong, "%s, %s: a mean lies between what it is of", arith->name, hp_dtype_name(dtype));
    is_int(0, overflown, "%s, %s: NaN and infinity stay", arith->name, hp_dtype_name(dtype));
}

static int
run_exchange(const hp_arith *arith, hoop_dtype dtype, int in_place, size_t count)
{
    hp_command command = {.elem = dtype, .wire = dtype, .sources = 2, .destinations = 2, .exchange = 1, .count = count};
    int first = in_place ? 0 : 2;
    int wrong = 0;
    for (int which = 0; which < ARRAYS; which++)
        fill_array(dtype, which, 0, which < 2 ? input[which] : NULL, count);
    for (int k = 0; k < 2; k++) {
        command.src[k].ptr = array(dtype, k, 0);
        command.dst[k].ptr = array(dtype, first + k, 0);
    }
    hp_host_run_with(arith, &command);
    wrong += check_array(dtype, first, 0, input[1], count, 0);
    wrong += check_array(dtype, first + 1, 0, input[0], count, 0);
    return wrong;
}

static void
check_exchange(const hp_arith *arith)
{
    for (int d = 0; d < HP_DTYPES; d++) {
        hoop_dtype dtype = hp_dtype_at(d);
        int wrong = 0;
        for (size_t i = 0; i < MOST; i++) {
            input[0][i] = ref_random(dtype);
            input[1][i] = ref_random(dtype);
        }
        for (size_t c = 0; c < sizeof(counts) / sizeof(*counts); c++) {
            wrong += run_exchange(arith, dtype, 0, counts[c]);
            wrong += run_exchange(arith, dtype, 1, counts[c]);
        }
        is_int(0, wrong, "%s, %s, exchange, apart and in place", arith->name, hp_dtype_name(dtype));
    }
}

static void
check_exchange_wire(const hp_arith *arith)
{
    float own[3] = {1.5F, -2.25F, 1e30F}, got[3];
    uint16_t slot[3] = {0x3c00, 0xc000, 0x7c00}; /* 1, -2, infinity */
    static const uint16_t sent[3] = {0x3e00, 0xc080, 0x7c00};
    hp_command command = {.elem = HOOP_FLOAT32, .wire = HOOP_FLOAT16, .sources = 2, .destinations = 2, .exchange = 1};
    command.count = 3;
    command.src[0] = (hp_operand){own, 0};
    command.src[1] = (hp_operand){slot, 1};
    command.dst[0] = (hp_operand){got, 0};
    command.dst[1] = (hp_operand){slot, 1};
    hp_host_run_with(arith, &command);
    ok(got[0] == 1 && got[1] == -2 && got[2] > 3e38F, "%s, exchange decodes what it takes", arith->name);
    is_blob(sent, slot, sizeof(sent), "%s, and encodes what it gives, in place", arith->name);
}

/* Examples from the manual: they do not depend on the reference. */
static void
check_promises(void)
{
    int8_t small[2] = {100, -7}, more[2] = {100, 0};
    uint64_t large[1] = {UINT64_MAX}, two[1] = {2};
    uint16_t half[2] = {0x7bff, 0x0001}, other[2] = {0x7bff, 0x8001};
    hp_command command = {
        .elem = HOOP_INT8, .wire = HOOP_INT8, .op = HOOP_SUM, .sources = 2, .destinations = 1, .count = 2};
    command.src[0].ptr = command.dst[0].ptr = small;
    command.src[1].ptr = more;
    hp_host_run(&command);
    is_int(-56, small[0], "int8: 100 + 100 wraps");
    command.op = HOOP_AVG;
    command.divisor = 2;
    hp_host_run(&command);
    is_int(22, small[0], "int8: (-56 + 100) / 2");
    is_int(-3, small[1], "int8: -7 / 2 truncates toward zero");
    command = (hp_command){
        .elem = HOOP_UINT64, .wire = HOOP_UINT64, .op = HOOP_PROD, .sources = 2, .destinations = 1, .count = 1};
    command.src[0].ptr = command.dst[0].ptr = large;
    command.src[1].ptr = two;
    hp_host_run(&command);
    is_uint(UINT64_MAX - 1, large[0], "uint64: a product wraps");
    command = (hp_command){.elem = HOOP_FLOAT16, .wire = HOOP_FLOAT16, .op = HOOP_AVG, .ranks = {1, 1}, .sources = 2};
    command.destinations = 1;
    command.count = 2;
    command.src[0].ptr = command.dst[0].ptr = half;
    command.src[1].ptr = other;
    hp_host_run(&command);
    is_uint(0x7bff, half[0], "float16: the average of two largest values does not overflow on the way");
    is_uint(0, half[1], "float16: opposite denormals cancel");
}

/* The caller's rounding mode does not change the weights of a mean either. */
static void
check_weights(void)
{
    static uint16_t a[1000], b[1000], calm[1000], rough[1000];
    hp_command command = {.elem = HOOP_FLOAT16, .wire = HOOP_FLOAT16, .op = HOOP_AVG, .sources = 2, .destinations = 1};
    for (int i = 0; i < 1000; i++) {
        a[i] = (uint16_t)(tap_random() % 0x7c00);
        b[i] = (uint16_t)(tap_random() % 0x7c00);
    }
    command.ranks[0] = 2;
    command.ranks[1] = 1;
    command.count = 1000;
    command.src[0].ptr = a;
    command.src[1].ptr = b;
    command.dst[0].ptr = calm;
    hp_host_run(&command);
    fesetround(FE_UPWARD);
    command.dst[0].ptr = rough;
    hp_host_run(&command);
    fesetround(FE_TONEAREST);
    is_blob(calm, rough, sizeof(calm), "... nor of a mean's");
}

/* The caller's rounding mode has no effect on results, and is restored. */
static void
check_environment(void)
{
    float a[64], b[64], calm[64], rough[64];
    hp_command command = {.elem = HOOP_FLOAT32, .wire = HOOP_FLOAT32, .op = HOOP_SUM, .sources = 2, .destinations = 1};
    for (int i = 0; i < 64; i++) {
        a[i] = 1.0F / (float)(i + 1);
        b[i] = 1e-9F * (float)(i + 1);
    }
    command.count = 64;
    command.src[0].ptr = a;
    command.src[1].ptr = b;
    command.dst[0].ptr = calm;
    hp_host_run(&command);
    fesetround(FE_UPWARD);
    command.dst[0].ptr = rough;
    hp_host_run(&command);
    is_int(FE_UPWARD, fegetround(), "the caller's rounding mode survives a command");
    fesetround(FE_TONEAREST);
    is_blob(calm, rough, sizeof(calm), "and does not change a bit of the result");
    check_weights();
}

static void
check_queue(void)
{
    uint8_t from[4] = {1, 2, 3, 4}, to[4] = {0};
    hp_command command = {.elem = HOOP_UINT8, .wire = HOOP_UINT8, .sources = 1, .destinations = 1, .count = 4};
    hp_command nothing = {.elem = HOOP_UINT8, .wire = HOOP_UINT8};
    hp_device *device = NULL;
    hp_queue *queue = NULL;
    hoop_error error;
    is_int(HOOP_SUCCESS, hp_host_ops.open(&device, from, &error), "the device opens");
    ok(device->ops == &hp_host_ops && hp_host_ops.addressable(device), "its memory may be sent directly");
    is_int(0, hp_host_ops.owns(from), "it claims nothing");
    is_int(HOOP_SUCCESS, hp_host_ops.pin(device, from, 4, &error), "slots are visible anyway");
    hp_host_ops.unpin(device, from);
    is_int(HOOP_SUCCESS, hp_host_ops.queue_open(device, &queue, &error), "a queue opens");
    ok(queue->ops == &hp_host_ops, "and knows its device's functions");
    is_uint(0, hp_host_ops.done(queue), "nothing is done yet");
    is_int(-1, hp_host_ops.wake_fd(queue), "nobody needs to be woken");
    command.src[0].ptr = from;
    command.dst[0].ptr = to;
    is_uint(1, hp_host_ops.submit(queue, &command), "the first ticket is 1");
    is_blob(from, to, 4, "the command is done on return");
    is_uint(1, hp_host_ops.done(queue), "and counted");
    is_uint(2, hp_host_ops.submit(queue, &nothing), "a command without destinations keeps its place");
    is_uint(2, hp_host_ops.done(queue), "and is done");
    hp_host_ops.wake_arm(queue);
    is_int(HOOP_SUCCESS, hp_host_ops.drain(queue), "drain");
    is_int(HOOP_SUCCESS, hp_host_ops.status(queue, &error), "status");
    hp_host_ops.queue_close(queue);
    hp_host_ops.close(device);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    diag("seed %llu", (unsigned long long)tap_seed());
    allocate();
    for (const hp_arith *const *arith = hp_ariths; *arith; arith++) {
        if (!(*arith)->usable()) {
            skip(1, "this CPU cannot run the %s loops", (*arith)->name);
            continue;
        }
        for (int d = 0; d < HP_DTYPES; d++)
            check_type(*arith, hp_dtype_at(d));
        for (int i = 0; i < HP_NARROW; i++) {
            check_bounds(*arith, hp_narrow[i]);
            if (hp_dtype_size(hp_narrow[i]) == 1)
                check_every_mean(*arith, hp_narrow[i]);
        }
        check_wires(*arith);
        check_exchange(*arith);
        check_exchange_wire(*arith);
    }
    check_promises();
    check_environment();
    check_queue();
    release();
    return 0;
}
