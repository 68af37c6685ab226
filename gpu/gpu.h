/* SPDX-License-Identifier: MIT */
/* gpu: this folder's interface for the folders above it: the devices there are, and whose memory a pointer is. */
#ifndef HP_GPU_H
#define HP_GPU_H

#include "gpu/cuda.h"
#include "gpu/device.h"
#include "gpu/host.h"

/* The device functions for this memory: never NULL. */
const hp_device_ops *hp_device_of(const void *ptr);

/* Why CUDA is or is not in use, one sentence for logs and --version. */
const char *hp_gpu_describe(char *out, size_t size);

#endif
