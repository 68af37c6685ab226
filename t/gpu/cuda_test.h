/* SPDX-License-Identifier: MIT */
/*
 * cuda_test: what the tests of the CUDA backend share. They run on the stand-in driver, or with HOOP_TEST_CUDA=real on
 * the machine's own driver; checks that must steer the driver are then skipped.
 */
#ifndef T_GPU_CUDA_TEST_H
#define T_GPU_CUDA_TEST_H

#include "gpu/gpu.h"
#include "t/tap/tap.h"
#include "t/tools/cuda_device.h"
#include "t/tools/libcuda.h"

/*
 * Loads the driver. NULL for a real one. Skips all tests on a machine without driver or GPU; bails out if there is a
 * GPU that hoop cannot use.
 */
const hoop_fake_cuda *cuda_test_driver(void);

/* Opens the device, or bails out. */
hp_device *cuda_test_open(void);

/* Opens the device of that number. A new thread does it: a current context would decide otherwise. */
hp_device *cuda_test_open_on(int ordinal);

/* The three kinds of memory that a command's operand may be in. */
typedef enum arena_kind { ARENA_DEVICE, ARENA_SLOT, ARENA_PLAIN, ARENA_KINDS } arena_kind;

typedef struct arena {
    arena_kind kind;
    hp_device *device;
    char *memory;
    size_t bytes;
} arena;

arena arena_new(hp_device *device, arena_kind kind, size_t bytes);
void arena_free(arena *a);
void arena_put(const arena *a, const void *bytes, size_t count);
void arena_get(const arena *a, void *bytes, size_t count);

/* The first int32 elements of an arena: all become `value`; the one value that all have, or -1. */
enum { ARENA_VALUES = 1000 };
void arena_fill(const arena *a, int value);
int arena_value(const arena *a);

/* Opens a queue, or bails out. */
hp_queue *cuda_test_queue(hp_device *device);

/* Commands on int32: to = from; to = to + from. */
hp_command cuda_test_copy(void *to, const void *from, size_t count);
hp_command cuda_test_add(void *to, const void *from, size_t count);

/*
 * Runs the test on the driver; and three times more on the stand-in, which then behaves worse and worse: its streams
 * are late by up to delay_us, it has no stream memory operations, and calls that may wait for all streams do.
 */
void cuda_test_variants(const hoop_fake_cuda *fake, void (*test)(unsigned delay_us));

/* Waits until the ticket is done, at most ten seconds. */
int cuda_test_wait(hp_queue *queue, uint64_t ticket);

/* Random elements with every kind of special value among them. */
void cuda_test_fill(hoop_dtype dtype, void *elements, size_t count);

/* The bits must be equal, but for a NaN's payload and the sign of a zero from MIN or MAX. */
int cuda_test_same(hoop_dtype dtype, hoop_op op, const void *wanted, const void *seen, size_t count);

#endif
