/* SPDX-License-Identifier: MIT */
/*
 * device: what runs reductions. A device is a row of functions: the host CPU is one (host.c), CUDA another (cuda.c),
 * the tests' simulated device a third (t/sim/device.c), and the belt (lib/channel.c) treats them alike. Work is
 * given to a device as commands in a queue. A queue runs its commands in the order of submission, and a counter that
 * only grows gives the number of those that are complete.
 *
 * Threads: several threads may use one device; a queue is used by one thread at a time.
 */
#ifndef HP_DEVICE_H
#define HP_DEVICE_H

#include "hoop.h"

/* An array of a command. Its elements are of the command's element type, or of its wire type if `wire` is set. */
typedef struct hp_operand {
    void *ptr;
    int wire;
} hp_operand;

/*
 * A command, elementwise over `count`:
 *     v = src[0]                     (sources == 1)
 *     v = src[0] op src[1]           (sources == 2); 16- and 8-bit floats are computed in float32 and rounded once
 *                                    a bool's is 0 or 1 whatever the op, as hoop.h has it
 *     v = v / divisor                (divisor > 1: HOOP_AVG's owner; op is then HOOP_AVG and combines as a sum)
 *     every dst[k] = v
 * With `ranks` (sources == 2, op is HOOP_AVG of 16- or 8-bit floats, wire == elem, no divisor) the sources are means,
 * the k-th over ranks[k] ranks, and v is the mean over all of these:
 *     v = src[0] * (ranks[0] / n) + src[1] * (ranks[1] / n)         n = ranks[0] + ranks[1]
 * Both weights, both products and their sum are float32, each rounded, and v is rounded once to the type. An infinity
 * stays one, in e5m2 too: a mean cannot overflow, so an infinity was an element.
 * With `exchange` (sources == destinations == 2, no op): dst[0] = src[1], dst[1] = src[0], loads before stores.
 * A destination may be exactly a source, never overlap it otherwise. Pointers have the element's natural alignment; one of
 * HP_SCALED begins at a block.
 * When wire != elem, a destination in the wire type is encoded (round to nearest even) and every other destination of
 * the same command gets the *decoded* value of what was encoded, so that all ranks hold the same bits. With `remainder`
 * it gets what that rounding has taken away, times the divisor; 0 if the value or what was encoded is no finite number.
 */
typedef struct hp_command {
    hoop_dtype elem, wire; /* wire may be HP_SCALED (base/dtype.h) if elem is float32 and nothing is exchanged */
    hoop_op op;
    int sources, destinations; /* 1 or 2 each; 0 destinations: a no-op that keeps its place in the queue */
    int exchange;
    int remainder;     /* elem is float32, and dst[0] is in the wire type, dst[1] not */
    uint32_t divisor;  /* 0 or 1: none */
    uint32_t ranks[2]; /* 0: the sources are no means */
    hp_operand src[2], dst[2];
    size_t count;
} hp_command;

typedef struct hp_device hp_device; /* backend structs begin with `const hp_device_ops *ops` */
typedef struct hp_queue hp_queue;   /* likewise */
typedef struct hp_gate hp_gate;     /* blocks a caller's stream until the host opens it */
typedef struct hp_mark hp_mark;     /* a position in a caller's stream */

typedef struct hp_device_ops {
    const char *name;             /* "cpu", "cuda" */
    int (*owns)(const void *ptr); /* 1 if ptr is this backend's memory (the CPU owns the rest) */
    /* ptr: memory on the wanted device, or NULL. */
    hoop_result (*open)(hp_device **device, const void *ptr, hoop_error *error);
    int (*serves)(hp_device *device, const void *ptr); /* 1 if open would take this very device for ptr; NULL: always */
    /* A caller's array on an open device: HOOP_SUCCESS, or why no command could use it. NULL: every array is usable. */
    hoop_result (*admit)(hp_device *device, const void *ptr, hoop_error *error);
    void (*close)(hp_device *device);
    int (*addressable)(hp_device *device); /* 1: the host may send() and recv() the caller's memory directly */
    hoop_result (*pin)(hp_device *device, void *pages, size_t bytes, hoop_error *error); /* make slots visible */
    void (*unpin)(hp_device *device, void *pages);
    hoop_result (*queue_open)(hp_device *device, hp_queue **queue, hoop_error *error);
    void (*queue_close)(hp_queue *queue);                           /* drains first */
    uint64_t (*submit)(hp_queue *queue, const hp_command *command); /* ticket 1, 2, 3 ...; 0: failed, see status */
    uint64_t (*done)(hp_queue *queue);     /* every ticket up to this one is complete, its writes visible */
    int (*wake_fd)(hp_queue *queue);       /* readable when `done` may have grown; -1: submit is synchronous */
    void (*wake_arm)(hp_queue *queue);     /* makes wake_fd readable when all commands are complete */
    hoop_result (*drain)(hp_queue *queue); /* waits for all submitted commands */
    hoop_result (*status)(hp_queue *queue, hoop_error *error); /* HOOP_SUCCESS or the queue's first error, kept */
    /* The rest orders an operation with a caller's stream. NULL on a device without streams. */
    /* Appends a gate: the stream runs nothing behind it until gate_open. */
    hoop_result (*gate_close)(hp_device *device, void *stream, hp_gate **gate, hoop_error *error);
    void (*gate_open)(hp_gate *gate); /* the stream goes on, also after an error; frees the gate */
    /*
     * Opens all gates, and every gate that is closed later; no command can be submitted any more. Any thread may call
     * it, also while other threads are blocked in the driver, because it does not call the driver. Each gate still
     * needs its gate_open.
     */
    void (*release)(hp_device *device);
    /*
     * `mark` (any thread, before the operation's gate) remembers the stream's present end; `passed` returns whether the
     * stream has run everything before the mark. Its writes are then visible to commands submitted later. The caller
     * of `passed` submits an operation's commands only afterwards, so no command ever waits for a caller's work, and
     * a queue can be drained and closed at any time. If the device fails meanwhile, `passed` notes that in the
     * queue's status. A mark may be given back with `unmark` before it is passed.
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

#endif
