/* SPDX-License-Identifier: MIT */
/*
 * cuda_launch: what hoop puts into streams: its kernels, and stream memory operations (cuStreamWriteValue64,
 * cuStreamWaitValue32), which are kernels of one thread on a GPU that has none.
 */
#ifndef HP_CUDA_LAUNCH_H
#define HP_CUDA_LAUNCH_H

#include "gpu/cuda_internal.h"

/* The compiled kernels as bytes of the library (fatbin.S); the size is 0 in a build without nvcc. */
extern const unsigned char hp_fatbin[];
extern const uint64_t hp_fatbin_size;

/* Loads the compiled kernels into the current context; the opposite. */
hoop_result hp_cuda_kernels_load(hp_cuda_device *device, hoop_error *error);
void hp_cuda_kernels_unload(hp_cuda_device *device);

/* Launches the command's kernel; its operands src[0], src[1], dst[0], dst[1] are at these addresses for the GPU. */
hoop_result hp_cuda_launch(hp_cuda_queue *queue, const hp_command *command, const hp_cu_pointer address[4]);

/* Launches each kernel once, with `word` as a source and a destination of no elements; it is 0 and stays 0. */
hoop_result hp_cuda_launch_all(hp_cuda_queue *queue, hp_cu_pointer word);

/* The stream writes `value` to a 64-bit word, after all writes of what is in the stream before. */
hoop_result hp_cuda_write_value(const hp_cuda_device *device, void *stream, hp_cu_pointer word, uint64_t value,
                                const char *doing, hoop_error *error);

/* The stream waits until a 32-bit word, which only grows and may wrap, is at least `value`. */
hoop_result hp_cuda_wait_value(const hp_cuda_device *device, void *stream, hp_cu_pointer word, uint32_t value,
                               const char *doing, hoop_error *error);

/* Keeps the queue's first error; returns the kept one. */
hoop_result hp_cuda_keep_error(hp_cuda_queue *queue, hp_cu_result result, const char *call, const char *doing);

/*
 * Whether the queue has no error and the device was not released: after a release the callers have their arrays back,
 * so no kernel may touch them.
 */
hoop_result hp_cuda_may_submit(hp_cuda_queue *queue);

#endif
