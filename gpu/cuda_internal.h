/* SPDX-License-Identifier: MIT */
/*
 * cuda_internal: what the files of the CUDA backend share, and nobody else reads.
 *   cuda_driver.c  the driver's functions          cuda.c        devices: contexts, kernels
 *   cuda_memtype.c   what memory a GPU can reach
 *   cuda_queue.c   streams of commands, completion     cuda_bounce.c  commands on memory the GPU cannot reach
 *   cuda_stream_sync.c    users' streams: marks, gates    cuda_memory.c device memory for our own programs
 * Locks: the device's lock guards its lists; it is never held across a driver call that could wait for a stream.
 */
#ifndef HP_CUDA_INTERNAL_H
#define HP_CUDA_INTERNAL_H

#include "base/dtype.h"
#include "gpu/cuda.h"
#include "gpu/cuda_driver.h"
#include "gpu/cuda_kernel.h"
#include "gpu/gpu.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    HP_CUDA_COPY, /* + log2 of the element's size */
    HP_CUDA_WIRE = HP_CUDA_COPY + 4,
    HP_CUDA_STAMP,
    HP_CUDA_GATE,
    HP_CUDA_REDUCE,                                /* + dtype * 4 + op (avg as sum) */
    HP_CUDA_MEAN = HP_CUDA_REDUCE + 4 * HP_DTYPES, /* + hp_narrow_index */
    HP_CUDA_KERNELS = HP_CUDA_MEAN + HP_NARROW
};

/* Pages of ours that the GPU sees. */
typedef struct hp_cuda_pages {
    struct hp_cuda_pages *next;
    char *host;
    size_t bytes;
    hp_cu_pointer device;
    int registered; /* by us: 0 if somebody else had done it before */
} hp_cuda_pages;

typedef struct hp_cuda_sync_block hp_cuda_sync_block; /* a block of gates */

typedef struct hp_cuda_device {
    hp_device base;
    const hp_cuda_driver *driver;
    hp_cu_device handle;
    hp_cu_context context; /* the device's primary one, which the CUDA runtime uses too */
    hp_cu_module module;
    hp_cu_function kernels[HP_CUDA_KERNELS];
    int priority; /* the highest: commands overtake the user's kernels, and share no hardware queue with held streams */
    int blocks;
    int memory_ops;
    int ordinal;
    char name[64];
    pthread_mutex_t lock;
    hp_cuda_pages *pages;
    hp_cuda_sync_block *sync_blocks;
    struct hp_gate *gates; /* the open ones */
    atomic_int released;   /* all are, for good; written under the lock */
    struct hp_mark *marks; /* those not in use; a stream may still come to some */
} hp_cuda_device;

typedef struct hp_cuda_bounce hp_cuda_bounce;

typedef struct hp_cuda_queue {
    hp_queue base;
    hp_cuda_device *device;
    hp_cu_stream stream; /* the commands, in order */
    hp_cu_stream aside;  /* carries the wake, so that no command waits for a host function */
    hp_cu_event wake;
    _Atomic uint64_t *counter;    /* a page of host memory; the GPU writes the ticket of the last command done */
    hp_cu_pointer counter_device; /* the same word as the GPU sees it */
    uint64_t submitted;
    uint64_t armed; /* the ticket the last wake was asked for */
    uint64_t told;  /* what `done` said last, and `status` */
    hoop_result told_code;
    uint64_t looked;  /* when we last asked the driver for the stream's health */
    atomic_int woken; /* the eventfd was written and not yet read */
    int fd;
    hp_cuda_bounce *bounce;
    hoop_error status;
} hp_cuda_queue;

/*
 * Makes the device's context current, and lets this thread's calls through while a CUDA graph is captured elsewhere in
 * the process; hp_cuda_leave puts back another context that was there, and the thread's capture mode. Every enter, also
 * one that failed, wants its leave. Nested pairs are fine.
 */
hoop_result hp_cuda_enter(hp_cuda_device *device, hp_cu_context *before, hoop_error *error);
void hp_cuda_leave(hp_cuda_device *device, hp_cu_context before);

/* Pages of ours to and from the GPU's view (hp_device_ops.enroll). */
hoop_result hp_cuda_pin(hp_device *device, void *pages, size_t bytes, hoop_error *error);
void hp_cuda_unpin(hp_device *device, void *pages);

/* What memory is, seen from this device. */
typedef enum hp_cuda_memtype {
    HP_CUDA_MEM_DIRECT,   /* *address is good for its kernels */
    HP_CUDA_MEM_PEER,     /* another GPU's: the driver can copy it */
    HP_CUDA_MEM_PAGEABLE, /* ordinary host memory: the CPU can copy it */
    HP_CUDA_MEM_REFUSED   /* out of reach for all, or the driver failed to say: see *error */
} hp_cuda_memtype;
hp_cuda_memtype hp_cuda_memtype_of(hp_cuda_device *device, const void *memory, hp_cu_pointer *address,
                                   hoop_error *error);

/* Refuses an array of this GPU's that lies in another context's address space. */
hoop_result hp_cuda_admit(hp_device *device, const void *ptr, hoop_error *error);

/* The GPU's address of memory in enrolled pages. */
hp_cu_pointer hp_cuda_page(hp_cuda_device *device, const void *memory);

/* The queue's row of the table. */
hoop_result hp_cuda_queue_open(hp_device *device, hp_queue **queue, hoop_error *error);
void hp_cuda_queue_close(hp_queue *queue);
uint64_t hp_cuda_submit(hp_queue *queue, const hp_command *command);
uint64_t hp_cuda_done(hp_queue *queue);
int hp_cuda_wake_fd(hp_queue *queue);
void hp_cuda_wake_arm(hp_queue *queue);
void hp_cuda_check_health(hp_cuda_queue *queue); /* learns of a device that died with nothing to show for it */
hoop_result hp_cuda_drain(hp_queue *queue);
hoop_result hp_cuda_status(hp_queue *queue, hoop_error *error);

/* Keeps an error if the device was released: a kernel would still touch arrays that their owner has back. */
hoop_result hp_cuda_may_submit(hp_cuda_queue *queue);

/* Launches the kernel for `command`, whose operands are at the addresses given, src[0], src[1], dst[0], dst[1]. */
hoop_result hp_cuda_launch(hp_cuda_queue *queue, const hp_command *command, const hp_cu_pointer address[4]);

/* Runs a command of which some operands are not HP_CUDA_MEM_DIRECT, piece by piece through pages of the queue's own. */
hoop_result hp_cuda_bounce_run(hp_cuda_queue *queue, const hp_command *command, const hp_cuda_memtype memtype[4],
                               const hp_cu_pointer address[4]);
hoop_result hp_cuda_bounce_new(hp_cuda_queue *queue);
void hp_cuda_bounce_free(hp_cuda_queue *queue);

/* Users' streams. */
hoop_result hp_cuda_mark(hp_device *device, void *stream, hp_mark **mark, hoop_error *error);
int hp_cuda_passed(hp_queue *queue, hp_mark *mark);
void hp_cuda_unmark(hp_mark *mark);
hoop_result hp_cuda_gate_close(hp_device *device, void *stream, hp_gate **gate, hoop_error *error);
void hp_cuda_gate_open(hp_gate *gate);
void hp_cuda_release(hp_device *device);
hoop_result hp_cuda_sync_block_new(hp_cuda_device *device,
                                   hoop_error *error); /* a block of them; more follow when it is used up */
void hp_cuda_streams_free(hp_cuda_device *device);     /* marks and gates, when the device closes */

#endif
