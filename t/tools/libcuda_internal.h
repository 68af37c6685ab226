/* SPDX-License-Identifier: MIT */
/*
 * libcuda_internal: what the files of the stand-in driver share: its objects, its state under one lock, how a call
 * begins and ends.
 *     libcuda.c             contexts, modules, errors, steering
 *     libcuda_stream.c      streams and events, and the operations they hold
 *     libcuda_connection.c  hardware queues, which run the operations
 *     libcuda_memory.c      memory and addresses
 */
#ifndef T_LIBCUDA_INTERNAL_H
#define T_LIBCUDA_INTERNAL_H

#include "gpu/cuda_kernel.h"

#include <pthread.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

enum { CAPTURE_HERE = 1, CAPTURE_ELSEWHERE = 2 }; /* fake_state.capturing */
enum {
    APART,
    BLOCKING,
    LEGACY
}; /* stream.kind: BLOCKING streams and their context's LEGACY stream wait for each other */
enum { CONNECTIONS_MAX = 32, NAMES_MAX = 64 };
enum { MODE_GLOBAL, MODE_THREAD, MODE_RELAXED };

enum {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    ALREADY_REGISTERED = 712,
    NOT_REGISTERED = 713,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_IMPLICIT = 906
};

typedef unsigned long long address;
typedef void host_fn(void *arg);
typedef struct fake_context {
    int ordinal, retained;
    struct fake_stream *legacy; /* stream 0, made when first used */
    struct fake_connection *shared[CONNECTIONS_MAX];
    unsigned made; /* streams, ever */
} context;

typedef struct fake_event {
    unsigned long recorded, reached;
    int holders; /* its owner, and operations under way */
} event;

/* A hardware queue: a thread that runs the operations of one stream, or of all that share the queue, in order. */
typedef struct fake_connection {
    struct fake_connection **shared; /* its place in the context, or NULL: one stream's own */
    pthread_t thread;
    struct fake_operation *first, **last; /* the first is under way */
    unsigned long under_way;
    int streams, closing;
} connection;

typedef struct fake_stream {
    struct fake_stream *next; /* of the process */
    context *context;
    connection *connection;
    int kind;
    unsigned long submitted, done;
} stream;

enum fake_kind { KERNEL, HOST, RECORD, AWAIT, WRITE, HOLD, COPY };

typedef struct fake_operation {
    struct fake_operation *next;
    stream *stream;
    unsigned long serial; /* among those of all streams */
    enum fake_kind kind;
    char kernel[48];
    hp_kernel_args args;
    unsigned blocks, threads;
    host_fn *fn;
    void *arg;
    event *event;
    unsigned long number; /* of the event's record */
    address to, from;
    unsigned long long value; /* or bytes */
} operation;

typedef struct fake_function {
    struct fake_function *next;
    char name[48];
    int loaded;
} function;

/* A range of device addresses, and its bytes. */
typedef struct fake_range {
    struct fake_range *next;
    char *seen, *bytes;
    size_t size;
    int ordinal;
    int host;  /* registered: bytes is the host's own address */
    int apart; /* of a private context */
} range;

typedef struct fake_state {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    context contexts[8], private_context;
    range *ranges;
    long calls, fail_at, live, loads;
    struct {
        const char *name;
        long calls;
    } names[NAMES_MAX];
    const char *failed_name;
    double failed_at;
    int initialized, sticky, dead, break_next, capturing, spoiled;
    int devices, memory_ops, jealous, apart, depth, connections, unfit;
    stream *streams;
    unsigned long serial; /* of the last operation */
    unsigned delay_us;
    unsigned long under_way; /* operations of all streams */
    int draining;            /* a call waits for all operations, and all other calls wait for it */
    pthread_t drainer;
    void *compiled; /* kernels.cu for the CPU, or NULL */
} fake_state;

extern fake_state fake;
extern _Thread_local context *current;

/* Takes the lock and counts a call: the error that the call must return, or OK. fake_end gives the lock back. */
int fake_begin(const char *name);
int fake_begin_current(const char *name); /* also an error if no context is current */
int fake_unsafe(int error);               /* and also if another thread's capture forbids the call */
int fake_end(int result);

/* Waits for all of the GPU's work, if the driver is jealous. Under the lock, which it gives away meanwhile. */
void fake_drain(void);
void fake_load(function *f); /* loads a kernel at its first launch */

/* The bytes of a device address; NULL if the range is not all inside one allocation. Under the lock. */
void *fake_bytes_at(const void *memory, size_t size);

/* The bytes of an address in a copy: a device address, else a host address. Under the lock. */
void *fake_any_bytes(address memory, size_t size);

/* Whether the host waits for such a copy on a stream. */
int fake_copy_is_synchronous(address to, address from);

/* Streams, under the lock; drop and wait_for_room give it away while they wait. */
stream *fake_new_stream(context *owner, int kind); /* NULL: no memory */
void fake_drop_stream(stream *s);
void fake_wait_for_room(const stream *s);  /* until its connection takes another operation */
void fake_put(stream *s, operation *what); /* the stream frees the operation */
int fake_is_idle(const stream *s);

int fake_perform(const operation *o); /* after an error the context has failed */
int fake_is_dead(void);
void fake_let_go(event *e); /* under the lock */

/* Whether there is a kernel of that name. */
int fake_knows_kernel(const char *name);

#endif
