/* SPDX-License-Identifier: MIT */
/*
 * mxfp8: what float32 loses as hoop's e4m3 in blocks of 64 (HP_SCALED), beside MXFP8 of the OCP Microscaling Formats
 * specification 1.0: e4m3 in blocks of 32, whose scale 2^(s - 127) has the greatest magnitude's exponent less 8, and whose
 * elements saturate at 448. Both are measured in double precision; MXFP8 is this file's own. Diagnostics have the figures.
 * Where MXFP8 does not saturate, an element that is not far below the greatest has the same digits in both.
 */
#include "base/dtype.h"
#include "gpu/host.h"
#include "t/tap/tap.h"

#include <math.h>
#include <string.h>

enum { COUNT = 1 << 16, BLOCK = HP_SCALED_BLOCK, MX_BLOCK = 32 };

static float values[COUNT], hoop[COUNT], mx[COUNT];

/* --- the data --- */

typedef enum shape { UNIFORM, NORMAL, LOG_NORMAL, ONE_IN_64, ONE_IN_32 } shape;

typedef struct kind {
    const char *name;
    shape shape;
    double times;
    int ahead; /* the root mean square of hoop's errors is at most MXFP8's */
} kind;

static const kind kinds[] = {
    {"uniform", UNIFORM, 1, 1},
    {"normal", NORMAL, 1, 1},
    {"log-normal", LOG_NORMAL, 1, 1},
    {"huge, up to 3.35e38", UNIFORM, 3.35e38, 1},
    {"tiny, up to 1e-35", UNIFORM, 1e-35, 1},
    {"denormal, up to 1e-38", UNIFORM, 1e-38, 0},
    {"denormal, up to 1e-40", UNIFORM, 1e-40, 0},
    {"one in 64 a million times as large", ONE_IN_64, 1, 1},
    {"one in 32 a million times as large", ONE_IN_32, 1, 1},
};

static double
uniform(void)
{
    return (double)(tap_random() >> 11) * 0x1p-52 - 1;
}

static double
normal(void)
{
    double sum = 0;
    for (int i = 0; i < 12; i++)
        sum += uniform() / 2;
    return sum;
}

static void
fill(const kind *k)
{
    for (int i = 0; i < COUNT; i++) {
        double v = k->shape == UNIFORM ? uniform() : normal();
        if (k->shape == LOG_NORMAL)
            v = copysign(exp(2 * v), uniform());
        if ((k->shape == ONE_IN_64 && i % 64 == 5) || (k->shape == ONE_IN_32 && i % 32 == 5))
            v *= 1e6;
        values[i] = (float)(v * k->times);
    }
}

static double
greatest(const float *x, int count)
{
    double most = 0;
    for (int i = 0; i < count; i++)
        most = fmax(most, fabs((double)x[i]));
    return most;
}

/* --- both ways --- */

static void
by_hoop(void)
{
    static uint8_t blocks[COUNT + COUNT / BLOCK];
    const hp_arith *arith = hp_arith_best();
    arith->encode[hp_dtype_index(HP_SCALED)](blocks, values, COUNT);
    arith->decode[hp_dtype_index(HP_SCALED)](hoop, blocks, COUNT);
}

/* To the nearest e4m3, of two the even one. */
static double
to_e4m3(double x)
{
    int unit = (fabs(x) < 0x1p-6 ? -6 : ilogb(x)) - 3;
    double nearest = ldexp(nearbyint(ldexp(x, -unit)), unit);
    return nearest > 448 ? 448 : nearest < -448 ? -448 : nearest;
}

static void
by_mx(void)
{
    for (int at = 0; at < COUNT; at += MX_BLOCK) {
        double most = greatest(values + at, MX_BLOCK);
        int power = most == 0 ? -127 : ilogb(most) - 8;
        power = power < -127 ? -127 : power;
        for (int i = at; i < at + MX_BLOCK; i++)
            mx[i] = (float)ldexp(to_e4m3(ldexp((double)values[i], -power)), power);
    }
}

/* --- what is lost --- */

/* Root mean squares: of the errors, to that of the values; and of the relative errors, which small elements rule. */
typedef struct loss {
    double all, each;
} loss;

static loss
loss_of(const float *seen)
{
    double errors = 0, squares = 0, relative = 0;
    for (int i = 0; i < COUNT; i++) {
        double error = (double)seen[i] - (double)values[i], scaled = values[i] != 0 ? error / (double)values[i] : 0;
        errors += ldexp(error, 60) * ldexp(error, 60);
        squares += ldexp((double)values[i], 60) * ldexp((double)values[i], 60);
        relative += scaled * scaled;
    }
    return (loss){sqrt(errors / squares), sqrt(relative / COUNT)};
}

/* hoop_allreduce(3) has this bound of an element. */
static int
is_bounded(void)
{
    for (int i = 0; i < COUNT; i++) {
        double error = fabs((double)hoop[i] - (double)values[i]), own = fabs((double)values[i]) / 16;
        double most = greatest(values + i / BLOCK * BLOCK, BLOCK);
        if (error > fmax(own, fmax(most * 0x1p-17, 0x1p-136))) {
            diag("element %d: %a became %a", i, (double)values[i], (double)hoop[i]);
            return 0;
        }
    }
    return 1;
}

static void
compare(const kind *k)
{
    fill(k);
    by_hoop();
    by_mx();
    loss a = loss_of(hoop), b = loss_of(mx);
    diag("%-34s errors %.4f, MXFP8 %.4f: %.3f; relative ones %.4f, %.4f: %.3f", k->name, a.all, b.all, a.all / b.all,
         a.each, b.each, a.each / b.each);
    ok(is_bounded(), "%s: the bound holds", k->name);
    if (k->ahead)
        ok(a.all <= b.all, "%s: no more is lost than by MXFP8", k->name);
}

int
main(void)
{
    plan_lazy();
    tap_seed();
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        compare(&kinds[i]);
    return tap_failures() != 0;
}
