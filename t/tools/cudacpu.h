/* SPDX-License-Identifier: MIT */
/*
 * cudacpu: just enough of CUDA C++ to compile gpu/kernels.cu for the CPU, one thread after the other (its threads never
 * wait for each other). Included before it: c++ -x c++ -include t/tools/cudacpu.h gpu/kernels.cu
 */
#ifndef T_CUDACPU_H
#define T_CUDACPU_H

#include "gpu/cuda_kernel.h"

#include <string.h>
#include <unistd.h>

#define __global__ __attribute__((visibility("default")))
#define __device__
#define __noinline__
#define __launch_bounds__(threads)

struct cudacpu_index {
    unsigned x, y, z;
};

static thread_local cudacpu_index blockIdx, threadIdx, gridDim, blockDim;

static inline void
__threadfence_system()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void
__nanosleep(unsigned nanoseconds)
{
    usleep(nanoseconds / 1000);
}

/* Runs the whole grid. */
extern "C" __attribute__((visibility("default"))) void
cudacpu_launch(void (*kernel)(const hp_kernel_args), const hp_kernel_args *args, unsigned blocks, unsigned threads)
{
    gridDim.x = blocks;
    blockDim.x = threads;
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) {
        for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++)
            kernel(*args);
    }
}

#endif
