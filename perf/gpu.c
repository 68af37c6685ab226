/* SPDX-License-Identifier: MIT */
/*
 * gpu: GPU memory as a row of perf_memory, on the device that HOOP_CUDA_DEVICE or LOCAL_RANK names (settings
 * that hoop_comm_create has read before). A GPU that fails under a benchmark ends it: there is nothing left to measure.
 */
#include "perf/gpu.h"

#include "gpu/cuda.h"
#include "gpu/cuda_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1024 * 1024 };

static hp_device *gpu;
static char name[96];
static char pattern[PIECE];

static void
must(hoop_result result, const hoop_error *error)
{
    if (result == HOOP_SUCCESS)
        return;
    fprintf(stderr, "hoop-bench: %s\n", error->text);
    exit(EXIT_FAILURE);
}

static void *
gpu_alloc(size_t bytes)
{
    void *memory = NULL;
    return hp_cuda_alloc(gpu, &memory, bytes, NULL) == HOOP_SUCCESS ? memory : NULL;
}

static void
gpu_release(void *memory, size_t bytes)
{
    (void)bytes;
    hp_cuda_free(gpu, memory);
}

static void
gpu_copy(void *to, const void *from, size_t bytes)
{
    hoop_error error = {.size = sizeof(error)};
    if (bytes > 0)
        must(hp_cuda_copy(gpu, to, from, bytes, &error), &error);
}

static void
gpu_fill(void *to, int byte, size_t bytes)
{
    memset(pattern, byte, bytes < PIECE ? bytes : PIECE);
    for (size_t at = 0; at < bytes; at += PIECE)
        gpu_copy((char *)to + at, pattern, bytes - at < PIECE ? bytes - at : PIECE);
}

static const perf_memory row = {name, gpu_alloc, gpu_release, gpu_copy, gpu_copy, gpu_fill};

const perf_memory *
perf_gpu_open(hoop_error *error)
{
    hp_cuda_limits limits;
    if (hp_cuda_ops.open(&gpu, NULL, error) != HOOP_SUCCESS)
        return NULL;
    hp_cuda_limits_of(gpu, &limits);
    snprintf(name, sizeof(name), "memory of GPU %d (%s)", limits.ordinal, limits.name);
    return &row;
}
