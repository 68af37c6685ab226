/* SPDX-License-Identifier: MIT */
/*
 * libcuda: how a test steers the stand-in driver (libcuda.c). The test finds these functions with dlsym, so that the
 * same test can run on a real driver, which has none of them.
 *
 * Environment, read when the stand-in is loaded:
 *   HOOP_FAKE_CUDA_FAIL=k       the k-th driver call of the process fails
 *   HOOP_FAKE_CUDA_STICKY=1     and all calls after it, as after a kernel's illegal address
 *   HOOP_FAKE_CUDA_DELAY_US=d   every operation of a stream first waits up to d microseconds
 *   HOOP_FAKE_CUDA_DEVICES=n    that many GPUs (1)
 *   HOOP_FAKE_CUDA_MEMOPS=0     GPUs without stream memory operations
 *   HOOP_FAKE_CUDA_JEALOUS=1    calls that may wait for all of the GPU's work do so, and all other calls wait for them:
 *                               calls that allocate, free, pin or unpin memory, that make or destroy streams or
 *                               modules, and a kernel's first launch
 *   HOOP_FAKE_CUDA_UNFIT=n      modules are refused with this code
 *   HOOP_FAKE_CUDA_DEPTH=n      a hardware queue holds n operations; a call that appends one more waits for room (0: no
 *                               call waits). On a jealous driver, all other calls wait for that call
 *   HOOP_FAKE_CUDA_CONNECTIONS=n a context has n hardware queues, which its streams share in turn; a stream waits for
 *                               the work that another has put there before (0: each stream has its own), as
 *                               CUDA_DEVICE_MAX_CONNECTIONS
 *   HOOP_FAKE_CUDA_KERNELS=FILE gpu/kernels.cu compiled for the CPU (cudacpu_kernels.h), in place of the host's
 *                               arithmetic
 */
#ifndef HP_FAKE_LIBCUDA_H
#define HP_FAKE_LIBCUDA_H

#include <stddef.h>

typedef struct hoop_fake_cuda {
    void (*fail)(long call, int sticky); /* 1: the next call; 0: none any more */
    long (*calls)(void);                 /* driver calls so far */
    long (*called)(const char *prefix);  /* calls of functions with that prefix; names are without _v2 */
    long (*loads)(void);                 /* first launches of kernels, once per module */
    const char *(*failed)(void);         /* name of the call that was made to fail, or NULL */
    double (*failed_at)(void);           /* the time of that call, in seconds of CLOCK_MONOTONIC */
    void (*break_kernel)(void);          /* the next kernel of any stream fails, and with it the context */
    void (*heal)(void);                  /* repairs the context */
    long (*live)(void);                  /* existing contexts, modules, streams, events, registrations, allocations */
    void (*delay)(unsigned microseconds);
    /*
     * 1: every stream says that it is being captured. 2: a stream of another thread's is, in global mode: the default
     * stream may not be used, nor, by threads in that mode, what is unsafe then. 0: none.
     */
    void (*capture)(int what);
    int (*spoiled)(void);       /* a call has invalidated the other thread's capture */
    void (*memory_ops)(int on); /* for devices opened from now on */
    void (*apart)(int on); /* memory allocated from now on belongs to a private context, where hoop runs no kernel */
    void (*jealous)(int on);
    /* The bytes of a device address, for stand-in kernels; NULL if not all are inside one allocation. */
    void *(*bytes)(const void *memory, size_t size);
    void (*depth)(int operations);
    void (*connections)(int number); /* for streams made from now on */
    void (*load)(void);              /* waits as a kernel's first launch does */
} hoop_fake_cuda;

/* By dlsym. */
extern const hoop_fake_cuda hoop_fake_cuda_table;

#endif
