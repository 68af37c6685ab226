/* SPDX-License-Identifier: MIT */
/* cuda_image: the compiled kernels as bytes of the library (fatbin.S); the size is 0 in a build without nvcc. */
#ifndef HP_CUDA_IMAGE_H
#define HP_CUDA_IMAGE_H

#include <stdint.h>

extern const unsigned char hp_fatbin[];
extern const uint64_t hp_fatbin_size;

#endif
