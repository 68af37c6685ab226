/* SPDX-License-Identifier: MIT */
/* cuda_image: in a build without nvcc the tests on the stand-in driver pretend to have kernels. */
#include "gpu/cuda_launch.h"

const unsigned char hp_fatbin[] = {'n', 'o', 'n', 'e'};
const uint64_t hp_fatbin_size = sizeof(hp_fatbin);
