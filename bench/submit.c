/* SPDX-License-Identifier: MIT */
/*
 * submit: what it costs to have the GPU reduce between two receives, in microseconds, as a Markdown table: the CPU's
 * time for each call that the belt makes, and how long a command takes from its submission until the host knows that it
 * is done, asking without pause or asleep on the queue's descriptor. A command reduces what was received with the
 * rank's own data, in a slot: slot = slot + input, the input in the GPU's memory. Usage: submit [SLICE_BYTES [CALLS]]
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "gpu/gpu.h"
#include "t/tools/cuda_device.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_CALLS = 100000, ROW = 32, PATIENCE_MS = 1000 };

typedef struct submit_bench {
    hp_device *device;
    hp_queue *queue;
    void *stream, *input;
    char *slots; /* ROW of them: so many successive commands use no slot twice */
    size_t slice;
    hp_mark *mark;
    hp_gate *gate;
} submit_bench;

static void
need(hoop_result result, const hoop_error *error)
{
    if (result == HOOP_SUCCESS)
        return;
    fprintf(stderr, "submit: %s\n", error->text);
    exit(EXIT_FAILURE);
}

static void
need_queue(const submit_bench *b)
{
    hoop_error error = {.size = sizeof(error)};
    need(b->queue->ops->status(b->queue, &error), &error);
}

static uint64_t
submit(const submit_bench *b, int slot, size_t bytes)
{
    void *memory = b->slots + (size_t)slot * b->slice;
    hp_command command = {.elem = HOOP_FLOAT32, .wire = HOOP_FLOAT32, .op = HOOP_SUM, .sources = 2};
    command.destinations = bytes > 0;
    command.src[0].ptr = command.dst[0].ptr = memory;
    command.src[1].ptr = b->input;
    command.count = bytes / sizeof(float);
    uint64_t ticket = b->queue->ops->submit(b->queue, &command);
    if (ticket == 0)
        need_queue(b);
    return ticket;
}

static void
drain(const submit_bench *b)
{
    b->queue->ops->drain(b->queue);
    need_queue(b);
    (void)b->queue->ops->done(b->queue);
}

/* --- what is measured: each gives the nanoseconds of one call --- */

static uint64_t
time_submit(const submit_bench *b, size_t bytes)
{
    uint64_t start = hp_now();
    submit(b, 0, bytes);
    uint64_t end = hp_now();
    drain(b);
    return end - start;
}

static uint64_t
submit_nothing(submit_bench *b)
{
    return time_submit(b, 0);
}

static uint64_t
submit_element(submit_bench *b)
{
    return time_submit(b, sizeof(float));
}

static uint64_t
submit_slice(submit_bench *b)
{
    return time_submit(b, b->slice);
}

static uint64_t
polled(const submit_bench *b, size_t bytes)
{
    uint64_t start = hp_now(), ticket = submit(b, 0, bytes);
    while (b->queue->ops->done(b->queue) < ticket)
        need_queue(b);
    return hp_now() - start;
}

static uint64_t
element_polled(submit_bench *b)
{
    return polled(b, sizeof(float));
}

static uint64_t
slice_polled(submit_bench *b)
{
    return polled(b, b->slice);
}

static uint64_t
slept(const submit_bench *b, size_t bytes)
{
    struct pollfd fd = {.fd = b->queue->ops->wake_fd(b->queue), .events = POLLIN};
    uint64_t start = hp_now(), ticket = submit(b, 0, bytes);
    while (b->queue->ops->done(b->queue) < ticket) {
        b->queue->ops->wake_arm(b->queue);
        if (poll(&fd, 1, PATIENCE_MS) < 0 && errno != EINTR)
            exit(EXIT_FAILURE);
        need_queue(b);
    }
    return hp_now() - start;
}

static uint64_t
element_slept(submit_bench *b)
{
    return slept(b, sizeof(float));
}

static uint64_t
slice_slept(submit_bench *b)
{
    return slept(b, b->slice);
}

/* The time of one command among many that are submitted without waiting. */
static uint64_t
slice_in_row(submit_bench *b)
{
    uint64_t start = hp_now();
    for (int i = 0; i < ROW; i++)
        submit(b, i, b->slice);
    drain(b);
    return (hp_now() - start) / ROW;
}

static uint64_t
arm(submit_bench *b)
{
    submit(b, 0, b->slice);
    uint64_t start = hp_now();
    b->queue->ops->wake_arm(b->queue);
    uint64_t end = hp_now();
    drain(b);
    return end - start;
}

static uint64_t
mark(submit_bench *b)
{
    hoop_error error = {.size = sizeof(error)};
    uint64_t start = hp_now();
    hoop_result result = b->device->ops->mark(b->device, b->stream, &b->mark, &error);
    uint64_t end = hp_now();
    need(result, &error);
    b->device->ops->unmark(b->mark);
    return end - start;
}

/* From the mark of a stream that is through with its work until the host knows. */
static uint64_t
pass(submit_bench *b)
{
    hoop_error error = {.size = sizeof(error)};
    uint64_t start = hp_now();
    need(b->device->ops->mark(b->device, b->stream, &b->mark, &error), &error);
    while (!b->queue->ops->passed(b->queue, b->mark))
        continue;
    uint64_t end = hp_now();
    b->device->ops->unmark(b->mark);
    return end - start;
}

static uint64_t
close_gate(submit_bench *b)
{
    hoop_error error = {.size = sizeof(error)};
    uint64_t start = hp_now();
    hoop_result result = b->device->ops->gate_close(b->device, b->stream, &b->gate, &error);
    uint64_t end = hp_now();
    need(result, &error);
    b->device->ops->gate_open(b->gate);
    need(hp_cuda_stream_wait(b->device, b->stream, &error), &error);
    return end - start;
}

/* From the opening until the stream has gone on and the host knows. */
static uint64_t
open_gate(submit_bench *b)
{
    hoop_error error = {.size = sizeof(error)};
    need(b->device->ops->gate_close(b->device, b->stream, &b->gate, &error), &error);
    uint64_t start = hp_now();
    b->device->ops->gate_open(b->gate);
    need(hp_cuda_stream_wait(b->device, b->stream, &error), &error);
    return hp_now() - start;
}

static const struct {
    const char *name;
    uint64_t (*once)(submit_bench *b);
} rows[] = {
    {"submit a command of nothing (its ticket only)", submit_nothing},
    {"submit a command of 4 B", submit_element},
    {"submit a command of a slice", submit_slice},
    {"order a wake", arm},
    {"mark a stream", mark},
    {"a mark, until it is seen passed", pass},
    {"close a gate", close_gate},
    {"open a gate, until the stream is through", open_gate},
    {"a command of 4 B, until it is seen done", element_polled},
    {"a command of 4 B, until a sleeper is woken", element_slept},
    {"a command of a slice, until it is seen done", slice_polled},
    {"a command of a slice, until a sleeper is woken", slice_slept},
    {"a command of a slice, one of 32 in a row", slice_in_row},
};

/* --- the table --- */

static int
by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void
print_row(submit_bench *b, size_t row, uint64_t *times, size_t calls)
{
    size_t warm = calls / 10 + 1;
    for (size_t i = 0; i < warm; i++)
        rows[row].once(b);
    for (size_t i = 0; i < calls; i++)
        times[i] = rows[row].once(b);
    qsort(times, calls, sizeof(*times), by_value);
    printf("| %s | %.2f | %.2f | %.2f |\n", rows[row].name, (double)times[calls / 2] / 1000, (double)times[0] / 1000,
           (double)times[calls * 99 / 100] / 1000);
    fflush(stdout);
}

static void
print_table(submit_bench *b, size_t calls)
{
    hp_cuda_limits limits;
    uint64_t *times = calloc(calls, sizeof(*times));
    if (!times) {
        fprintf(stderr, "submit: not enough memory for %zu times\n", calls);
        exit(EXIT_FAILURE);
    }
    hp_cuda_limits_of(b->device, &limits);
    printf("GPU %d (%s), %s, %d thread blocks\n\n", limits.ordinal, limits.name,
           limits.memory_ops ? "stream memory operations" : "kernels that stamp and wait", limits.blocks);
    printf("### Submission, slices of %zu KiB of float32, %zu calls\n\n", b->slice >> 10, calls);
    printf("| what | median us | least us | 99 %% us |\n|---|---|---|---|\n");
    for (size_t row = 0; row < sizeof(rows) / sizeof(*rows); row++)
        print_row(b, row, times, calls);
    free(times);
}

static void
open_all(submit_bench *b)
{
    hoop_error error = {.size = sizeof(error)};
    need(hp_cuda_ops.open(&b->device, NULL, &error), &error);
    b->slots = hp_pages(ROW * b->slice);
    if (!b->slots)
        need(hp_err_set(&error, HOOP_ERR_NO_MEMORY, "not enough memory for %d slots", ROW), &error);
    need(b->device->ops->pin(b->device, b->slots, ROW * b->slice, &error), &error);
    need(hp_cuda_alloc(b->device, &b->input, b->slice, &error), &error);
    need(hp_cuda_copy(b->device, b->input, b->slots, b->slice, &error), &error); /* zeros: nothing becomes denormal */
    need(b->device->ops->queue_open(b->device, &b->queue, &error), &error);
    need(hp_cuda_stream_open(b->device, &b->stream, &error), &error);
}

static void
close_all(submit_bench *b)
{
    hp_cuda_stream_close(b->device, b->stream);
    b->device->ops->queue_close(b->queue);
    hp_cuda_free(b->device, b->input);
    b->device->ops->unpin(b->device, b->slots);
    hp_pages_free(b->slots, ROW * b->slice);
    b->device->ops->close(b->device);
}

static size_t
number(const char *text, size_t least, size_t most)
{
    char *end = NULL;
    unsigned long long value = strtoull(text, &end, 10);
    if (end != text && *end == '\0' && value >= least && value <= most)
        return value;
    fprintf(stderr, "submit: %s is no number from %zu to %zu\nusage: submit [SLICE_BYTES [CALLS]]\n", text, least,
            most);
    exit(2);
}

int
main(int argc, char **argv)
{
    submit_bench b = {.slice = 512 << 10}; /* lib/config.def's slice_bytes */
    size_t calls = 1000;
    if (argc > 1)
        b.slice = number(argv[1], 4096, (size_t)64 << 20) & ~(size_t)4095;
    if (argc > 2)
        calls = number(argv[2], 10, MOST_CALLS);
    open_all(&b);
    print_table(&b, calls);
    close_all(&b);
    return 0;
}
