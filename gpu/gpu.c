/* SPDX-License-Identifier: MIT */
/* gpu: which backend a pointer belongs to. CUDA claims its own memory; the host CPU takes the rest. */
#include "gpu/gpu.h"

const hp_device_ops *
hp_device_of(const void *ptr)
{
    return ptr && hp_cuda_ops.owns(ptr) ? &hp_cuda_ops : &hp_host_ops;
}

const char *
hp_gpu_describe(char *out, size_t size)
{
    return hp_cuda_describe(out, size);
}
