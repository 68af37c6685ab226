/* SPDX-License-Identifier: MIT */
/* cuda: a GPU as a device; the CUDA backend's settings, and the description of a device. */
#ifndef HP_CUDA_H
#define HP_CUDA_H

#include "gpu/device.h"

extern const hp_device_ops hp_cuda_ops; /* owns() is 0 for all pointers where the driver is not installed */

typedef struct hp_cuda_options {
    int device; /* used if neither a pointer nor the calling thread's context decides; -1: by LOCAL_RANK */
    int blocks; /* at most that many thread blocks of 512 run one command; 0: the default */
} hp_cuda_options;

/* For devices opened from now on; any thread. Without this call: device -1, blocks 0. */
void hp_cuda_configure(const hp_cuda_options *options);

/* The GPU that would be opened if no array names one. Opens nothing. */
hoop_result hp_cuda_ordinal(int *ordinal, hoop_error *error);

/* One sentence: which GPU and driver, or why there is none. Starts nothing where no driver is installed. */
const char *hp_cuda_describe(char *out, size_t size);

#endif
