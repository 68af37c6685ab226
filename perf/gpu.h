/* SPDX-License-Identifier: MIT */
/* gpu: GPU memory for the benchmark's buffers (-g 1). */
#ifndef PERF_GPU_H
#define PERF_GPU_H

#include "hoop.h"
#include "perf/memory.h"

/* NULL, with a sentence, where this build has no kernels or this machine no GPU. */
const perf_memory *perf_gpu_open(hoop_error *error);

#endif
