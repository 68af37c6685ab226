/* SPDX-License-Identifier: MIT */
/*
 * cuda: what the rest of the project may know of the CUDA backend beside its row in the device table (gpu.h's
 * hp_cuda_ops): its settings, and device memory for programs of this repository that are not CUDA programs themselves
 * (hoop-bench, the tests).
 */
#ifndef HP_CUDA_H
#define HP_CUDA_H

#include "gpu/gpu.h"

typedef struct hp_cuda_options {
    int device; /* the device where neither a pointer nor the calling thread's context names one; -1: LOCAL_RANK's */
    int blocks; /* at most that many thread blocks of 512 work on one command; 0: the default */
} hp_cuda_options;

/* For devices opened from now on; any thread. Without it: device -1, blocks 0. */
void hp_cuda_configure(const hp_cuda_options *options);

/* One sentence: which GPU and driver, or why there is none. Starts nothing where no driver is installed. */
const char *hp_cuda_describe(char *out, size_t size);

/* What a command in flight costs and where commands ran; for hoop-bench and the tests. */
typedef struct hp_cuda_limits {
    int ordinal, blocks;
    int memory_ops; /* 1: the GPU counts and waits with stream memory operations, 0: with kernels of one thread */
    char name[64];
} hp_cuda_limits;
void hp_cuda_limits_of(const hp_device *device, hp_cuda_limits *limits);

/* Device memory. Copies go either way, between any two kinds of memory, and are complete on return. */
hoop_result hp_cuda_alloc(hp_device *device, void **memory, size_t bytes, hoop_error *error);
void hp_cuda_free(hp_device *device, void *memory);
hoop_result hp_cuda_copy(hp_device *device, void *to, const void *from, size_t bytes, hoop_error *error);

/* A stream of the kind a CUDA program would own. */
hoop_result hp_cuda_stream_open(hp_device *device, void **stream, hoop_error *error);
void hp_cuda_stream_close(hp_device *device, void *stream);
hoop_result hp_cuda_stream_wait(hp_device *device, void *stream, hoop_error *error);
/* Appends a copy to the stream. Host memory should be enrolled: the driver may wait for the stream otherwise. */
hoop_result hp_cuda_stream_copy(hp_device *device, void *stream, void *to, const void *from, size_t bytes,
                                hoop_error *error);

#endif
