/* SPDX-License-Identifier: MIT */
/*
 * cuda_memory: device memory and streams for programs of this repository that are not CUDA programs (bench/, the
 * tests). The library itself allocates nothing on a GPU.
 */
#ifndef HP_CUDA_MEMORY_H
#define HP_CUDA_MEMORY_H

#include "gpu/device.h"

/* Copies go either way, between any two kinds of memory, and are complete on return. */
hoop_result hp_cuda_alloc(hp_device *device, void **memory, size_t bytes, hoop_error *error);
void hp_cuda_free(hp_device *device, void *memory);
hoop_result hp_cuda_copy(hp_device *device, void *to, const void *from, size_t bytes, hoop_error *error);

/* A stream as a CUDA program would make it. */
hoop_result hp_cuda_stream_open(hp_device *device, void **stream, hoop_error *error);
void hp_cuda_stream_close(hp_device *device, void *stream);
hoop_result hp_cuda_stream_wait(hp_device *device, void *stream, hoop_error *error);

/* Appends a copy to the stream. Host memory should be pinned: the driver may wait for the stream otherwise. */
hoop_result hp_cuda_stream_copy(hp_device *device, void *stream, void *to, const void *from, size_t bytes,
                                hoop_error *error);

#endif
