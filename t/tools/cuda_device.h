/* SPDX-License-Identifier: MIT */
/*
 * cuda_device: memory and streams of a GPU, and what hoop knows of it, for programs of this repository that are not CUDA
 * programs (bench/, the tests). The library itself allocates nothing on a GPU.
 */
#ifndef T_TOOLS_CUDA_DEVICE_H
#define T_TOOLS_CUDA_DEVICE_H

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

/* Where commands run, and with how many blocks. */
typedef struct hp_cuda_limits {
    int ordinal, blocks;
    int memory_ops; /* 1: streams use stream memory operations, 0: kernels of one thread in their place */
    char name[64];
} hp_cuda_limits;
void hp_cuda_limits_of(const hp_device *device, hp_cuda_limits *limits);

#endif
