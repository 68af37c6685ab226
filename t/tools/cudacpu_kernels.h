/* SPDX-License-Identifier: MIT */
/*
 * cudacpu_kernels: gpu/kernels.cu as a library for the CPU, from which the stand-in driver launches kernels
 * (HOOP_FAKE_CUDA_KERNELS): c++ -x c++ -shared -include t/tools/cudacpu_kernels.h gpu/kernels.cu
 */
#ifndef T_CUDACPU_KERNELS_H
#define T_CUDACPU_KERNELS_H

#include "gpu/cuda_kernel.h"
#include "t/tools/cudacpu.h"

#define __global__ __attribute__((visibility("default")))

extern "C" __attribute__((visibility("default"))) void
cudacpu_launch(void (*kernel)(const hp_kernel_args), const hp_kernel_args *args, unsigned blocks, unsigned threads)
{
    cudacpu_grid(blocks, threads, [=] { kernel(*args); });
}

#endif
