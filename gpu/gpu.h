/* SPDX-License-Identifier: MIT */
/*
 * gpu: memory and arithmetic. A device is a row of functions; the host CPU is one, CUDA another, the tests' simulated
 * device a third, and the belt (lib/channel.c) cannot tell them apart. Everything asynchronous is a queue: commands
 * finish in the order they were submitted, and a counter that only grows says how many have.
 *
 * Threads: one device may be used by several threads, one queue by one thread at a time.
 */
#ifndef HP_GPU_H
#define HP_GPU_H

#include "hoop.h"

/* An array of a command: element type, or the wire type the command names when `wire` is set. */
typedef struct hp_operand {
    void *ptr;
    int wire;
} hp_operand;

/*
 * One fused command, elementwise over `count`:
 *     v = src[0]                     (sources == 1)
 *     v = src[0] op src[1]           (sources == 2); 16- and 8-bit floats are computed in float32 and rounded once
 *     v = v / divisor                (divisor > 1: HOOP_AVG's owner; op is then HOOP_AVG and combines as a sum)
 *     every dst[k] = v
 * With `ranks` (sources == 2, op is HOOP_AVG of 16- or 8-bit floats, wire == elem, no divisor) the sources are means,
 * the k-th over ranks[k] ranks, and v is the mean over all of these:
 *     v = src[0] * (ranks[0] / n) + src[1] * (ranks[1] / n)         n = ranks[0] + ranks[1]
 * Both weights, both products and their sum are float32's, each rounded, and v is rounded once to the type. An infinity
 * stays one, in e5m2 too: where nothing overflows, it is an element's.
 * With `exchange` (sources == destinations == 2, no op): dst[0] = src[1], dst[1] = src[0], loads before stores.
 * A destination may be exactly a source, never overlap it otherwise. Pointers have the element's natural alignment.
 * When wire != elem, a destination in the wire type is encoded (round to nearest even) and every other destination of
 * the same command gets the *decoded* value of what was encoded, so that all ranks hold the same bits.
 */
typedef struct hp_command {
    hoop_dtype elem, wire;
    hoop_op op;
    int sources, destinations; /* 1 or 2 each; 0 destinations: a no-op that keeps its place in the queue */
    int exchange;
    uint32_t divisor;  /* 0 or 1: none */
    uint32_t ranks[2]; /* 0: the sources are no means */
    hp_operand src[2], dst[2];
    size_t count;
} hp_command;

typedef struct hp_device hp_device; /* backend structs begin with `const hp_device_ops *ops` */
typedef struct hp_queue hp_queue;   /* likewise */
typedef struct hp_gate hp_gate;     /* a user's stream held until the host opens it */
typedef struct hp_mark hp_mark;     /* a place in a user's stream */

typedef struct hp_device_ops {
    const char *name;             /* "cpu", "cuda" */
    int (*owns)(const void *ptr); /* 1 if ptr is this backend's memory (the cpu owns the rest) */
    hoop_result (*open)(hp_device **device, const void *ptr,
                        hoop_error *error);            /* ptr: memory on the device wanted, or NULL */
    int (*serves)(hp_device *device, const void *ptr); /* 1 if open would take this very device for ptr; NULL: always */
    /* A caller's array on an open device: HOOP_SUCCESS, or why no command could use it. NULL: any will do. */
    hoop_result (*admit)(hp_device *device, const void *ptr, hoop_error *error);
    void (*close)(hp_device *device);
    int (*addressable)(hp_device *device); /* 1: the host may send() and recv() the user's memory directly */
    hoop_result (*pin)(hp_device *device, void *pages, size_t bytes, hoop_error *error); /* make slots visible */
    void (*unpin)(hp_device *device, void *pages);
    hoop_result (*queue_open)(hp_device *device, hp_queue **queue, hoop_error *error);
    void (*queue_close)(hp_queue *queue);                           /* drains first */
    uint64_t (*submit)(hp_queue *queue, const hp_command *command); /* ticket 1, 2, 3 ...; 0: failed, see status */
    uint64_t (*done)(hp_queue *queue);     /* every ticket <= this one is complete, its writes visible */
    int (*wake_fd)(hp_queue *queue);       /* readable when `done` may have grown; -1: submit is synchronous */
    void (*wake_arm)(hp_queue *queue);     /* asks for a wake when all is done */
    hoop_result (*drain)(hp_queue *queue); /* waits for everything submitted */
    hoop_result (*status)(hp_queue *queue, hoop_error *error); /* HOOP_SUCCESS or the queue's first error, kept */
    /* From here on: callers' streams. NULL on a device without them. */
    hoop_result (*gate_close)(hp_device *device, void *stream, hp_gate **gate,
                              hoop_error *error); /* stream stops here ... */
    void (*gate_open)(hp_gate *gate);             /* ... goes on, also after an error; frees the gate */
    /*
     * Everything is given up: every stream goes on that is held or will be, and no command is submitted any more. From
     * any thread, also while others are stuck in the driver, which this does not call; the gates still want their
     * gate_open.
     */
    void (*release)(hp_device *device);
    /*
     * `mark` (any thread, before the call's own gate) remembers what is in stream now; `passed` says that all of it is
     * done, its writes visible to commands submitted from then on, and a device that has died meanwhile is in the
     * queue's status. Whoever needs that order submits nothing earlier. So nothing of a queue's ever stands behind a
     * caller's work: it can be drained and closed at any time. A mark may be given back before it is passed.
     */
    hoop_result (*mark)(hp_device *device, void *stream, hp_mark **mark, hoop_error *error);
    int (*passed)(hp_queue *queue, hp_mark *mark);
    void (*unmark)(hp_mark *mark);
} hp_device_ops;

struct hp_device {
    const hp_device_ops *ops;
};

struct hp_queue {
    const hp_device_ops *ops;
};

extern const hp_device_ops hp_host_ops; /* gpu/host.c */
extern const hp_device_ops hp_cuda_ops; /* gpu/cuda.c; owns() is 0 for everything where there is no driver */

/* The backend whose memory this is: never NULL. */
const hp_device_ops *hp_device_of(const void *ptr);

/* Why CUDA is or is not in use, one sentence for logs and --version. */
const char *hp_gpu_describe(char *out, size_t size);

/* The host backend's arithmetic itself, for places that want no queue (tests, kernels' reference). */
void hp_host_run(const hp_command *command);

#endif
