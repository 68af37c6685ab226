/* SPDX-License-Identifier: MIT */
/*
 * host: the CPU as a device. A command is complete when submit returns, so a queue is a counter. The loops are in
 * reduce_*.c; hp_arith_best() chooses a set of them.
 *
 * A command runs in one of three ways:
 *     direct          all operands are of one type that has its own loop. With two destinations or a division it runs
 *                     block by block, so that each cache line is loaded once
 *     through float   8-bit floats except their means, and wire types other than the element type (floats only): pieces
 *                     are decoded to float32, combined, divided, and rounded once when they are stored. float64 too is
 *                     computed in float32 here
 *     exchange        both blocks are copied before either is stored
 */
#include "gpu/host.h"

#include "base/err.h"
#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#else
#include <fenv.h>
#endif

enum {
    PIECE_BYTES = 4096, /* of one operand: three of them fit any level-1 cache */
    PIECE_FLOATS = 512  /* whole blocks of HP_SCALED */
};

typedef struct host_queue {
    hp_queue queue;
    uint64_t submitted;
} host_queue;

/* --- the set of loops --- */

#ifdef __x86_64__
const hp_arith *const hp_ariths[] = {&hp_arith_avx512, &hp_arith_avx2, &hp_arith_plain, NULL};
#else
const hp_arith *const hp_ariths[] = {&hp_arith_plain, NULL};
#endif

/* The CPU is asked once, because the question is slow in virtual machines. */
const hp_arith *
hp_arith_best(void)
{
    static _Atomic(const hp_arith *) chosen; /* threads that race here store the same */
    const hp_arith *best = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (best)
        return best;
    const hp_arith *const *next = hp_ariths;
    while (next[1] && !(*next)->usable()) /* the last set is usable on every CPU */
        next++;
    atomic_store_explicit(&chosen, *next, memory_order_relaxed);
    return *next;
}

/* --- floating-point environment --- */

/*
 * The caller's thread may round differently, flush denormals to zero (programs built with -ffast-math do) or trap: a
 * sum would then depend on which thread drives the ring. So every command runs in the default environment.
 */
#ifdef __x86_64__
typedef unsigned fpu_state;
enum { FPU_DEFAULT = 0x1f80, FPU_FLAGS = 0x3f };

static fpu_state
fpu_enter(void)
{
    fpu_state saved = _mm_getcsr();
    if ((saved & ~(unsigned)FPU_FLAGS) != FPU_DEFAULT)
        _mm_setcsr(FPU_DEFAULT);
    return saved;
}

static void
fpu_leave(fpu_state saved)
{
    if ((saved & ~(unsigned)FPU_FLAGS) != FPU_DEFAULT)
        _mm_setcsr(saved);
}
#else
typedef fenv_t fpu_state;

static fpu_state
fpu_enter(void)
{
    fpu_state saved;
    fegetenv(&saved);
    fesetenv(FE_DFL_ENV);
    return saved;
}

static void
fpu_leave(fpu_state saved)
{
    fesetenv(&saved);
}
#endif

/* --- commands --- */

static hoop_dtype
type_of(const hp_command *command, const hp_operand *operand)
{
    return operand->wire ? command->wire : command->elem;
}

static void *
at(const hp_command *command, const hp_operand *operand, size_t index)
{
    return (char *)operand->ptr + hp_dtype_bytes(type_of(command, operand), index);
}

static size_t
bytes_of(const hp_command *command, const hp_operand *operand, size_t count)
{
    return hp_dtype_bytes(type_of(command, operand), count);
}

static size_t
smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static int
divides(const hp_command *command)
{
    return command->divisor > 1;
}

static int
is_mean(const hp_command *command)
{
    return command->ranks[0] > 0;
}

/* Whether all operands are of one type, which has all loops that the command needs. */
static int
is_direct(const hp_arith *arith, const hp_command *command)
{
    hoop_dtype type = type_of(command, &command->src[0]);
    if (is_mean(command))
        return 1;
    if (type == HP_SCALED)
        return 0;
    if (command->sources == 2 && (type_of(command, &command->src[1]) != type || !arith->reduce[hp_dtype_index(type)]))
        return 0;
    for (int k = 0; k < command->destinations; k++) {
        if (type_of(command, &command->dst[k]) != type)
            return 0;
    }
    return !divides(command) || arith->divide[hp_dtype_index(type)];
}

static void
mean_piece(const hp_arith *arith, const hp_command *command, size_t index, size_t count)
{
    float all = (float)(command->ranks[0] + command->ranks[1]);
    float weight[2] = {(float)command->ranks[0] / all, (float)command->ranks[1] / all};
    arith->mean[command->elem](at(command, &command->dst[0], index), at(command, &command->src[0], index),
                               at(command, &command->src[1], index), weight, count);
}

static void
direct_piece(const hp_arith *arith, const hp_command *command, size_t index, size_t count)
{
    hoop_dtype type = type_of(command, &command->src[0]);
    size_t bytes = bytes_of(command, &command->src[0], count);
    void *to = at(command, &command->dst[0], index);
    const void *from = at(command, &command->src[0], index);
    if (is_mean(command))
        mean_piece(arith, command, index, count);
    else if (command->sources == 2 && hp_op_is_bitwise(command->op) && type != HOOP_BOOL)
        arith->bits(command->op, to, from, at(command, &command->src[1], index), bytes);
    else if (command->sources == 2)
        arith->reduce[hp_dtype_index(type)](command->op, to, from, at(command, &command->src[1], index), count);
    else if (to != from)
        memcpy(to, from, bytes);
    if (divides(command))
        arith->divide[hp_dtype_index(type)](to, command->divisor, count);
    if (command->destinations == 2 && command->dst[1].ptr != command->dst[0].ptr)
        memcpy(at(command, &command->dst[1], index), to, bytes);
}

static void
run_direct(const hp_arith *arith, const hp_command *command)
{
    size_t piece = command->count;
    if (divides(command) || command->destinations == 2)
        piece = PIECE_BYTES / hp_dtype_size(type_of(command, &command->src[0]));
    for (size_t i = 0; i < command->count; i += piece)
        direct_piece(arith, command, i, smaller(piece, command->count - i));
}

/* A source's values, where they are if they are float32, else decoded into `room`. */
static const float *
view(const hp_arith *arith, const hp_command *command, int source, size_t index, float *room, size_t count)
{
    const hp_operand *operand = &command->src[source];
    hoop_dtype type = type_of(command, operand);
    const void *from = at(command, operand, index);
    if (type == HOOP_FLOAT32)
        return from;
    arith->decode[hp_dtype_index(type)](room, from, count);
    return room;
}

/* What rounding to `rounded` has taken from the values. A difference is no finite number if one of the two is none. */
static void
keep_remainder(const hp_command *command, float *values, const float *rounded, size_t count)
{
    float times = divides(command) ? (float)command->divisor : 1;
    for (size_t i = 0; i < count; i++) {
        float left = values[i] - rounded[i];
        values[i] = left - left == 0 ? left * times : 0;
    }
}

/* Destinations in the wire type first: the others get the values as they were rounded there. */
static void
store(const hp_arith *arith, const hp_command *command, size_t index, float *values, size_t count)
{
    unsigned wire = hp_dtype_index(command->wire);
    for (int k = 0; k < command->destinations; k++) {
        void *to = at(command, &command->dst[k], index);
        if (!command->dst[k].wire)
            continue;
        arith->encode[wire](to, values, count);
        if (command->remainder) {
            float rounded[PIECE_FLOATS];
            arith->decode[wire](rounded, to, count);
            keep_remainder(command, values, rounded, count);
        } else if (command->destinations == 2) {
            arith->decode[wire](values, to, count);
        }
    }
    for (int k = 0; k < command->destinations; k++) {
        if (!command->dst[k].wire)
            arith->encode[command->elem](at(command, &command->dst[k], index), values, count);
    }
}

/* Values that stay as they are go straight from a float32 source, and to the one destination if that is float32. */
static void
run_through_float(const hp_arith *arith, const hp_command *command)
{
    float a[PIECE_FLOATS];
    float b[PIECE_FLOATS];
    hoop_dtype type = type_of(command, &command->dst[0]);
    int direct = command->destinations == 1 && type == HOOP_FLOAT32;
    int changes = divides(command) || command->destinations == 2;
    for (size_t i = 0; i < command->count; i += PIECE_FLOATS) {
        size_t count = smaller(PIECE_FLOATS, command->count - i);
        void *target = at(command, &command->dst[0], i);
        float *to = direct ? target : a;
        const float *values = view(arith, command, 0, i, command->sources == 2 ? a : to, count);
        if (command->sources == 2) {
            arith->reduce[HOOP_FLOAT32](command->op, to, values, view(arith, command, 1, i, b, count), count);
            values = to;
        }
        if (!direct && !changes) {
            arith->encode[hp_dtype_index(type)](target, values, count);
            continue;
        }
        if (values != to)
            memcpy(to, values, count * sizeof(*to));
        if (divides(command))
            arith->divide[HOOP_FLOAT32](to, command->divisor, count);
        if (!direct)
            store(arith, command, i, to, count);
    }
}

/* A piece of the other source, held at `from`, to dst[destination]: verbatim if the types are the same. */
static void
put_piece(const hp_arith *arith, const hp_command *command, int destination, size_t index, const void *from,
          size_t count)
{
    hoop_dtype in = type_of(command, &command->src[1 - destination]);
    hoop_dtype out = type_of(command, &command->dst[destination]);
    void *to = at(command, &command->dst[destination], index);
    float values[PIECE_FLOATS];
    if (in == out) {
        memcpy(to, from, hp_dtype_bytes(in, count));
        return;
    }
    arith->decode[hp_dtype_index(in)](values, from, count);
    arith->encode[hp_dtype_index(out)](to, values, count);
}

static void
run_exchange(const hp_arith *arith, const hp_command *command)
{
    uint64_t a[PIECE_FLOATS];
    uint64_t b[PIECE_FLOATS];
    for (size_t i = 0; i < command->count; i += PIECE_FLOATS) {
        size_t count = smaller(PIECE_FLOATS, command->count - i);
        memcpy(a, at(command, &command->src[0], i), bytes_of(command, &command->src[0], count));
        memcpy(b, at(command, &command->src[1], i), bytes_of(command, &command->src[1], count));
        put_piece(arith, command, 0, i, b, count);
        put_piece(arith, command, 1, i, a, count);
    }
}

void
hp_host_run_with(const hp_arith *arith, const hp_command *command)
{
    if (command->destinations == 0 || command->count == 0)
        return;
    fpu_state saved = fpu_enter();
    if (command->exchange)
        run_exchange(arith, command);
    else if (is_direct(arith, command))
        run_direct(arith, command);
    else
        run_through_float(arith, command);
    fpu_leave(saved);
}

void
hp_host_run(const hp_command *command)
{
    hp_host_run_with(hp_arith_best(), command);
}

/* --- the device's functions --- */

static hp_device host_device = {&hp_host_ops}; /* without state: all communicators use this one */

static int
host_owns(const void *ptr)
{
    (void)ptr;
    return 0; /* the host owns all memory that no other device claims */
}

static hoop_result
host_open(hp_device **device, const void *ptr, hoop_error *error)
{
    (void)ptr;
    (void)error;
    *device = &host_device;
    return HOOP_SUCCESS;
}

static void
host_close(hp_device *device)
{
    (void)device;
}

static int
host_addressable(hp_device *device)
{
    (void)device;
    return 1;
}

static hoop_result
host_pin(hp_device *device, void *pages, size_t bytes, hoop_error *error)
{
    (void)device;
    (void)pages;
    (void)bytes;
    (void)error;
    return HOOP_SUCCESS;
}

static void
host_unpin(hp_device *device, void *pages)
{
    (void)device;
    (void)pages;
}

static hoop_result
host_queue_open(hp_device *device, hp_queue **queue, hoop_error *error)
{
    host_queue *host = hp_alloc(1, sizeof(*host));
    (void)device;
    *queue = NULL;
    if (!host)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "no memory for a queue of the CPU's commands (%zu bytes)",
                          sizeof(*host));
    host->queue.ops = &hp_host_ops;
    *queue = &host->queue;
    return HOOP_SUCCESS;
}

static void
host_queue_close(hp_queue *queue)
{
    free(queue);
}

static uint64_t
host_submit(hp_queue *queue, const hp_command *command)
{
    host_queue *host = (host_queue *)queue;
    hp_host_run(command);
    return ++host->submitted;
}

static uint64_t
host_done(hp_queue *queue)
{
    return ((host_queue *)queue)->submitted;
}

static int
host_wake_fd(hp_queue *queue)
{
    (void)queue;
    return -1;
}

static void
host_wake_arm(hp_queue *queue)
{
    (void)queue;
}

static hoop_result
host_drain(hp_queue *queue)
{
    (void)queue;
    return HOOP_SUCCESS;
}

static hoop_result
host_status(hp_queue *queue, hoop_error *error)
{
    (void)queue;
    (void)error;
    return HOOP_SUCCESS;
}

const hp_device_ops hp_host_ops = {
    .name = "cpu",
    .owns = host_owns,
    .open = host_open,
    .close = host_close,
    .addressable = host_addressable,
    .pin = host_pin,
    .unpin = host_unpin,
    .queue_open = host_queue_open,
    .queue_close = host_queue_close,
    .submit = host_submit,
    .done = host_done,
    .wake_fd = host_wake_fd,
    .wake_arm = host_wake_arm,
    .drain = host_drain,
    .status = host_status,
};
