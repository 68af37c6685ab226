/* SPDX-License-Identifier: MIT */
/* libcudart: what the stand-in runtime offers to stand-in kernels, which are cudacpu_stream.h and libcublas.c. */
#ifndef T_LIBCUDART_H
#define T_LIBCUDART_H

#include "t/tools/cuda/cuda_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Appends run(closure) to the stream, if a GPU could run that grid; frees `closure`, which is malloc's. `kernel`
 * identifies the kernel, which is loaded at its first launch; 0: a copy of bytes.
 */
cudaError_t hoop_fake_cudart_launch(cudaStream_t stream, uintptr_t kernel, unsigned blocks, unsigned threads,
                                    void (*run)(void *closure), void *closure);

/* For a run: the bytes of device memory. Ends the program if they are not all inside one allocation. */
void *hoop_fake_cudart_reach(const void *memory, size_t bytes);

/* The number of the runtime's objects; at the end of a program the remaining ones are reported. */
void hoop_fake_cudart_count(int change);

#ifdef __cplusplus
}
#endif
#endif
