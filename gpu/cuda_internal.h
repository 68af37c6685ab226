/* SPDX-License-Identifier: MIT */
/*
 * cuda_internal: the structures that the files of the CUDA backend share. Functions are declared in a header a file;
 * part.am has the order of the files. A device's lock guards its lists, and is never held across a driver call that
 * could wait for a stream.
 */
#ifndef HP_CUDA_INTERNAL_H
#define HP_CUDA_INTERNAL_H

#include "base/dtype.h"
#include "gpu/cuda_driver.h"
#include "gpu/device.h"

#include <pthread.h>
#include <stdatomic.h>

/* The kernels of hp_cuda_device.kernels; cuda_kernel.h has their names. */
enum {
    HP_CUDA_COPY, /* + log2 of the element's size */
    HP_CUDA_WIRE = HP_CUDA_COPY + 4,
    HP_CUDA_SCALED,
    HP_CUDA_STAMP,
    HP_CUDA_GATE,
    HP_CUDA_REDUCE,                                /* + hp_dtype_index * 4 + op of NCCL (avg as sum) */
    HP_CUDA_BITS = HP_CUDA_REDUCE + 4 * HP_DTYPES, /* + log2 of the element's size */
    HP_CUDA_MEAN = HP_CUDA_BITS + 4,               /* + hp_narrow_index */
    HP_CUDA_KERNELS = HP_CUDA_MEAN + HP_NARROW
};

typedef struct hp_cuda_pages hp_cuda_pages;           /* cuda_memtype.c: hoop's host memory that the GPU can address */
typedef struct hp_cuda_sync_block hp_cuda_sync_block; /* cuda_stream_sync.c: marks and gates */
typedef struct hp_cuda_bounce hp_cuda_bounce;         /* cuda_bounce.c: a queue's bounce buffer */

typedef struct hp_cuda_device {
    hp_device base;
    const hp_cuda_driver *driver;
    hp_cu_device handle;
    hp_cu_context context; /* the device's primary context, which the CUDA runtime uses too */
    hp_cu_module module;
    hp_cu_function kernels[HP_CUDA_KERNELS];
    /* The highest: commands overtake callers' kernels, and share no hardware queue with blocked streams. */
    int priority;
    int blocks;
    int memory_ops;
    int ordinal;
    char name[64];
    pthread_mutex_t lock;
    hp_cuda_pages *pages;
    hp_cuda_sync_block *sync_blocks;
    hp_gate *gates;      /* free ones */
    atomic_int released; /* all gates are open, for good; written under the lock */
    hp_mark *marks;      /* free ones; a stream may still write some of them */
} hp_cuda_device;

typedef struct hp_cuda_queue {
    hp_queue base;
    hp_cuda_device *device;
    hp_cu_stream stream;      /* runs the commands */
    hp_cu_stream wake_stream; /* runs the host function that wakes, so that no command waits for one */
    hp_cu_event wake;
    _Atomic uint64_t *counter;    /* in a page of host memory; the GPU writes the ticket of the last complete command */
    hp_cu_pointer counter_device; /* the counter's address for the GPU */
    uint64_t submitted;
    uint64_t armed;            /* the last ticket that a wake was ordered for */
    uint64_t reported;         /* what `done` returned last */
    hoop_result reported_code; /* what `status` returned last */
    uint64_t asked;            /* when the driver was last asked for the stream's state */
    atomic_int woken;          /* the eventfd was written and not yet read */
    int fd;
    hp_cuda_bounce *bounce;
    hoop_error status; /* the queue's first error */
} hp_cuda_queue;

static inline hp_cuda_device *
hp_cuda_device_of(hp_device *device)
{
    return (hp_cuda_device *)device;
}

#endif
