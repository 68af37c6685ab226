/* SPDX-License-Identifier: MIT */
/* bench_gpu: GPU memory for the benchmark's buffers (-g 1). */
#ifndef BENCH_GPU_H
#define BENCH_GPU_H

#include "bin/bench_memory.h"
#include "hoop.h"

/* NULL, with a sentence, where this build has no kernels or this machine no GPU. */
const bench_memory *bench_gpu_open(hoop_error *error);

#endif
