/* SPDX-License-Identifier: MIT */
/* cuda_memtype: what kind of memory an address is, for a given GPU, and how its kernels address it. */
#ifndef HP_CUDA_MEMTYPE_H
#define HP_CUDA_MEMTYPE_H

#include "gpu/cuda_internal.h"

typedef enum hp_cuda_memtype {
    HP_CUDA_MEM_DIRECT,   /* the GPU's own memory, or pinned host memory: kernels use it */
    HP_CUDA_MEM_PAGEABLE, /* host memory that is not pinned: the CPU can copy it */
    HP_CUDA_MEM_REFUSED   /* not usable, or the driver failed to answer: see *error */
} hp_cuda_memtype;

/* *address: where a kernel finds the memory, if it is HP_CUDA_MEM_DIRECT. */
hp_cuda_memtype hp_cuda_memtype_of(hp_cuda_device *device, const void *memory, hp_cu_pointer *address,
                                   hoop_error *error);

/* hp_device_ops.admit: refuses an array of another GPU, and one that lies in the address space of another context. */
hoop_result hp_cuda_admit(hp_device *device, const void *ptr, hoop_error *error);

/* hp_device_ops.pin and unpin: pins pages of hoop's own and maps them for the GPU; the opposite. */
hoop_result hp_cuda_pin(hp_device *device, void *pages, size_t bytes, hoop_error *error);
void hp_cuda_unpin(hp_device *device, void *pages);

/* Forgets pinned pages, which stay pinned and mapped until the process ends. */
void hp_cuda_leave_pinned(hp_cuda_device *device, const void *pages);

/* Unpins all pages that still are. */
void hp_cuda_unpin_all(hp_cuda_device *device);

/* The GPU's address of memory in pinned pages. */
hp_cu_pointer hp_cuda_page(hp_cuda_device *device, const void *memory);

#endif
