/* SPDX-License-Identifier: MIT */
/*
 * cudacpu: just enough of CUDA C++ to compile kernels for the CPU. A grid's threads run one after the other, so they
 * must not wait for each other. The including file defines __global__.
 */
#ifndef T_CUDACPU_H
#define T_CUDACPU_H

#include <string.h>
#include <unistd.h>

#define __device__
#define __noinline__
#define __launch_bounds__(threads)

struct cudacpu_index {
    unsigned x, y, z;
};

static thread_local cudacpu_index blockIdx, threadIdx, gridDim, blockDim;

/* The CPU rounds to nearest too; the compiler's options must forbid contraction. */
static inline float
__fmul_rn(float a, float b)
{
    return a * b;
}

static inline float
__fadd_rn(float a, float b)
{
    return a + b;
}

static inline float
__fdiv_rn(float a, float b)
{
    return a / b;
}

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

/* body() for every thread of a grid. */
template <class Body>
static inline void
cudacpu_grid(unsigned blocks, unsigned threads, const Body &body)
{
    gridDim = {blocks, 1, 1};
    blockDim = {threads, 1, 1};
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) {
        for (threadIdx.x = 0; threadIdx.x < threads; threadIdx.x++)
            body();
    }
}

#endif
