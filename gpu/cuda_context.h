/* SPDX-License-Identifier: MIT */
/*
 * cuda_context: the context that a driver call acts on is the calling thread's current one. These functions make a
 * device's primary context current for some calls, and put back what the thread had.
 */
#ifndef HP_CUDA_CONTEXT_H
#define HP_CUDA_CONTEXT_H

#include "gpu/cuda_internal.h"

/*
 * Makes the device's context current. Until hp_cuda_leave, this thread's calls are also allowed while another thread
 * captures a CUDA graph. Each enter, also one that failed, needs its leave; pairs may be nested.
 */
hoop_result hp_cuda_enter(hp_cuda_device *device, hp_cu_context *before, hoop_error *error);

/* Puts back the context and the capture mode that the thread had. */
void hp_cuda_leave(hp_cuda_device *device, hp_cu_context before);

/* In place of hp_cuda_leave when the device closes: also gives the primary context back to the driver. */
void hp_cuda_leave_closed(hp_cuda_device *device, hp_cu_context before);

/* The capture mode's part of enter and leave, for calls before there is a context. */
hoop_result hp_cuda_relax(const hp_cuda_driver *driver, hoop_error *error);
void hp_cuda_unrelax(const hp_cuda_driver *driver);

#endif
