/* SPDX-License-Identifier: MIT */
/*
 * warp: small distortions of an image (turn, stretch, shear, shift), so that a network sees another hand every time it
 * sees a digit. A pure function of the image and a key: whichever rank computes it, the result is the same.
 */
#ifndef EXAMPLES_WARP_H
#define EXAMPLES_WARP_H

#include <stddef.h>
#include <stdint.h>

/* Writes side x side pixels to `to`. Pixels from beyond the edge are 0. */
void warp_image(const float *from, float *to, int side, uint64_t key);

/* A well-mixed number of two, to make keys of. */
uint64_t warp_key(uint64_t a, uint64_t b);

#endif
