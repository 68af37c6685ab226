/* SPDX-License-Identifier: MIT */
/* own_types: the CPU's loops of the types that NCCL does not have, against C's own operators instead of the reference. */
#include "base/dtype.h"
#include "gpu/host.h"
#include "t/tap/tap.h"

enum { PAIRS = 1 << 16 };

static uint8_t every[PAIRS], other[PAIRS], both[PAIRS]; /* each byte with each other */

static void
reduce(const hp_arith *arith, hoop_dtype dtype, hoop_op op, const void *a, const void *b, void *d, size_t count)
{
    hp_command command = {.elem = dtype, .wire = dtype, .op = op, .sources = 2, .destinations = 1, .count = count};
    command.src[0].ptr = (void *)(uintptr_t)a;
    command.src[1].ptr = (void *)(uintptr_t)b;
    command.dst[0].ptr = d;
    hp_host_run_with(arith, &command);
}

static int
logical(hoop_op op, uint8_t a, uint8_t b)
{
    switch (op) {
    case HOOP_PROD:
    case HOOP_MIN:
    case HOOP_BAND: return a && b;
    case HOOP_BXOR: return !a != !b;
    default: return a || b;
    }
}

static void
check_bool(const hp_arith *arith)
{
    for (int o = 0; o < HP_OPS; o++) {
        hoop_op op = hp_op_at(o);
        int wrong = 0;
        if (op == HOOP_AVG)
            continue;
        reduce(arith, HOOP_BOOL, op, every, other, both, PAIRS);
        for (size_t i = 0; i < PAIRS; i++)
            wrong += both[i] != logical(op, every[i], other[i]);
        is_int(0, wrong, "%s, bool %s: every byte with every other", arith->name, hp_op_name(op));
    }
}

static void
check_bits(const hp_arith *arith)
{
    int wrong = 0;
    reduce(arith, HOOP_INT8, HOOP_BAND, every, other, both, PAIRS);
    for (size_t i = 0; i < PAIRS; i++)
        wrong += both[i] != (every[i] & other[i]);
    reduce(arith, HOOP_UINT16, HOOP_BOR, every, other, both, PAIRS / 2);
    for (size_t i = 0; i < PAIRS; i++)
        wrong += both[i] != (every[i] | other[i]);
    reduce(arith, HOOP_INT64, HOOP_BXOR, every, other, both, PAIRS / 8);
    for (size_t i = 0; i < PAIRS; i++)
        wrong += both[i] != (every[i] ^ other[i]);
    is_int(0, wrong, "%s, bits of integers", arith->name);
}

/* C promotes 16 bits to int, in which a product could overflow. */
static void
check_products(const hp_arith *arith)
{
    static const int16_t a[3] = {INT16_MIN, INT16_MIN, INT16_MAX}, b[3] = {-1, INT16_MIN, INT16_MAX};
    static const uint16_t u[2] = {UINT16_MAX, 0x8000}, v[2] = {UINT16_MAX, 3};
    int16_t signed_product[3];
    uint16_t unsigned_product[2];
    reduce(arith, HOOP_INT16, HOOP_PROD, a, b, signed_product, 3);
    reduce(arith, HOOP_UINT16, HOOP_PROD, u, v, unsigned_product, 2);
    ok(signed_product[0] == INT16_MIN && signed_product[1] == 0 && signed_product[2] == 1,
       "%s, products of int16 wrap: %d, %d, %d", arith->name, signed_product[0], signed_product[1], signed_product[2]);
    ok(unsigned_product[0] == 1 && unsigned_product[1] == 0x8000, "%s, products of uint16 wrap: %u, %u", arith->name,
       unsigned_product[0], unsigned_product[1]);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    for (size_t i = 0; i < PAIRS; i++) {
        every[i] = (uint8_t)i;
        other[i] = (uint8_t)(i >> 8);
    }
    for (const hp_arith *const *arith = hp_ariths; *arith; arith++) {
        if (!(*arith)->usable()) {
            skip(1, "this CPU cannot run the %s loops", (*arith)->name);
            continue;
        }
        check_bool(*arith);
        check_bits(*arith);
        check_products(*arith);
    }
    return 0;
}
