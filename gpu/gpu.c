/* SPDX-License-Identifier: MIT */
/* gpu: the table of backends. Whoever claims a pointer gets it; the host CPU takes the rest. */
#include "gpu/gpu.h"

#include "gpu/cuda.h"

static const hp_device_ops *const claimants[] = {&hp_cuda_ops};

const hp_device_ops *
hp_device_of(const void *ptr)
{
    for (size_t i = 0; ptr != NULL && i < sizeof claimants / sizeof *claimants; i++) {
        if (claimants[i]->owns(ptr))
            return claimants[i];
    }
    return &hp_host_ops;
}

const char *
hp_gpu_describe(char *out, size_t size)
{
    return hp_cuda_describe(out, size);
}
