/* SPDX-License-Identifier: MIT */
/* warp: an affine map drawn from the key, and bilinear sampling. Allocates nothing. */
#include "warp.h"

#include <math.h>

/* How far a draw of 1 goes: radians, shares, shares, pixels. */
static const double TURN = 0.2, STRETCH = 0.15, SHEAR = 0.2, SHIFT = 0.6;

uint64_t
warp_key(uint64_t a, uint64_t b)
{
    uint64_t key = (a + UINT64_C(0x9E3779B97F4A7C15)) ^ (b * UINT64_C(0xBF58476D1CE4E5B9));
    key = (key ^ (key >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    key = (key ^ (key >> 27)) * UINT64_C(0x94D049BB133111EB);
    return key ^ (key >> 31);
}

/* Uniform in -1 to 1. */
static double
draw(uint64_t *key)
{
    *key = warp_key(*key, 1);
    return (double)(*key >> 33) / (double)(UINT64_C(1) << 30) - 1.0;
}

static float
pixel(const float *from, int side, int x, int y)
{
    return x < 0 || x >= side || y < 0 || y >= side ? 0.0F : from[y * side + x];
}

static float
sample(const float *from, int side, double x, double y)
{
    int left = (int)floor(x), top = (int)floor(y);
    float fx = (float)(x - left), fy = (float)(y - top);
    float above = (1 - fx) * pixel(from, side, left, top) + fx * pixel(from, side, left + 1, top);
    float below = (1 - fx) * pixel(from, side, left, top + 1) + fx * pixel(from, side, left + 1, top + 1);
    return (1 - fy) * above + fy * below;
}

void
warp_image(const float *from, float *to, int side, uint64_t key)
{
    double angle = TURN * draw(&key), wide = 1 + STRETCH * draw(&key), high = 1 + STRETCH * draw(&key);
    double shear = SHEAR * draw(&key), right = SHIFT * draw(&key), down = SHIFT * draw(&key);
    double c = cos(angle), s = sin(angle), middle = (side - 1) / 2.0;
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++) {
            double u = x - middle, v = y - middle;
            to[y * side + x] = sample(from, side, wide * (c * u - s * v) + shear * v + middle + right,
                                      high * (s * u + c * v) + middle + down);
        }
}
