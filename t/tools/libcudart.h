/* SPDX-License-Identifier: MIT */
/* libcudart: what the stand-in runtime gives to what stands in for kernels: cudacpu_stream.h and libcublas.c. */
#ifndef T_LIBCUDART_H
#define T_LIBCUDART_H

#include "t/tools/cuda/cuda_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Appends run(closure) to the stream, if that is a grid a GPU can have; frees what came from malloc as `closure`. `kernel`
 * tells one kernel from another, which is loaded when it is first launched; 0: none, a movement of bytes.
 */
cudaError_t hoop_fake_cudart_launch(cudaStream_t stream, uintptr_t kernel, unsigned blocks, unsigned threads,
                                    void (*run)(void *closure), void *closure);

/* For a run: where the bytes of device memory are. Ends the program if they are not all inside one allocation. */
void *hoop_fake_cudart_reach(const void *memory, size_t bytes);

/* Objects of the runtime alive; what is left at the end of a program is said. */
void hoop_fake_cudart_count(int change);

#ifdef __cplusplus
}
#endif
#endif
