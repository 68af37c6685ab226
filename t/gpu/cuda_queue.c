/* SPDX-License-Identifier: MIT */
/*
 * A queue of the CUDA backend: whose memory a pointer is, tickets, wakes, several queues and threads, and an array that
 * no command can use.
 */
#include "t/gpu/cuda_test.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>

enum { COUNT = ARENA_VALUES };

static hp_device *device;
static const hoop_fake_cuda *fake;

static void
test_pointers(void)
{
    arena there = arena_new(device, ARENA_DEVICE, 64);
    int here = 0;
    is_int(1, hp_cuda_ops.owns(there.memory), "device memory is recognised");
    is_int(1, hp_cuda_ops.owns(there.memory + 63), "anywhere in it");
    is_int(0, hp_cuda_ops.owns(&here), "host memory is not CUDA's");
    is_int(0, hp_cuda_ops.owns(NULL), "nor is NULL");
    ok(hp_device_of(there.memory) == &hp_cuda_ops, "hp_device_of: cuda");
    ok(hp_device_of(&here) == &hp_host_ops, "hp_device_of: cpu");
    is_int(0, device->ops->addressable(device), "the host must not touch it");
    arena_free(&there);
}

static void
test_tickets(void)
{
    hp_queue *queue = cuda_test_queue(device);
    arena slot = arena_new(device, ARENA_SLOT, COUNT * sizeof(int32_t));
    arena sum = arena_new(device, ARENA_DEVICE, COUNT * sizeof(int32_t));
    int in_order = 1;
    uint64_t seen = 0;
    arena_fill(&slot, 1);
    arena_fill(&sum, 0);
    for (uint64_t i = 1; i <= 100; i++) {
        hp_command command = cuda_test_add(sum.memory, slot.memory, COUNT);
        if (i % 10 == 0)
            command.destinations = 0; /* keeps its place, does nothing */
        in_order = in_order && queue->ops->submit(queue, &command) == i;
        uint64_t done = queue->ops->done(queue);
        in_order = in_order && done >= seen && done <= i;
        seen = done;
    }
    ok(in_order, "tickets count from 1, done only grows");
    is_int(HOOP_SUCCESS, queue->ops->drain(queue), "drain");
    is_uint(100, queue->ops->done(queue), "after it all are done");
    is_int(90, arena_value(&sum), "each command ran once");
    queue->ops->queue_close(queue);
    arena_free(&slot);
    arena_free(&sum);
}

static int
readable(int fd, int timeout_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, timeout_ms) == 1;
}

static void
test_wake(void)
{
    hp_queue *queue = cuda_test_queue(device);
    arena slot = arena_new(device, ARENA_SLOT, COUNT * sizeof(int32_t));
    arena to = arena_new(device, ARENA_DEVICE, COUNT * sizeof(int32_t));
    int fd = queue->ops->wake_fd(queue);
    hp_command command = cuda_test_copy(to.memory, slot.memory, COUNT);
    int woken = 0;
    ok(fd > 2 && !readable(fd, 0), "the descriptor is quiet at first");
    queue->ops->wake_arm(queue);
    ok(!readable(fd, 0), "with nothing under way there is no wake");
    uint64_t first = queue->ops->submit(queue, &command);
    queue->ops->drain(queue);
    queue->ops->wake_arm(queue);
    ok(first == 1 && readable(fd, 30000), "a command that ended unseen wakes at once");
    queue->ops->done(queue);
    ok(!readable(fd, 0), "asking for done takes the wake");
    queue->ops->wake_arm(queue);
    ok(!readable(fd, 0), "and then there is nothing to be woken for");
    for (int i = 0; i < 200; i++) {
        uint64_t ticket = queue->ops->submit(queue, &command);
        queue->ops->wake_arm(queue);
        queue->ops->wake_arm(queue);
        while (queue->ops->done(queue) < ticket && readable(fd, 30000))
            continue;
        woken += queue->ops->done(queue) == ticket;
    }
    is_int(200, woken, "a sleeper is woken for each of 200 commands");
    while (readable(fd, 200)) /* the wake for the last command may still be on its way */
        queue->ops->done(queue);
    queue->ops->submit(queue, &command);
    queue->ops->drain(queue);
    queue->ops->done(queue);
    ok(!readable(fd, 20), "without arming there is no wake");
    queue->ops->queue_close(queue);
    arena_free(&slot);
    arena_free(&to);
}

static void *
adder(void *arg)
{
    arena *arenas = arg;
    hp_queue *queue = cuda_test_queue(device);
    uint64_t ticket = 0;
    for (int i = 0; i < 50; i++) {
        hp_command command = cuda_test_add(arenas[1].memory, arenas[0].memory, COUNT);
        ticket = queue->ops->submit(queue, &command);
    }
    int good = cuda_test_wait(queue, ticket);
    queue->ops->queue_close(queue);
    return good ? arg : NULL;
}

static void
test_threads(void)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    arena arenas[THREADS][2];
    for (int i = 0; i < THREADS; i++) {
        arenas[i][0] = arena_new(device, ARENA_SLOT, COUNT * sizeof(int32_t));
        arenas[i][1] = arena_new(device, i % 2 ? ARENA_DEVICE : ARENA_PLAIN, COUNT * sizeof(int32_t));
        arena_fill(&arenas[i][0], i + 1);
        arena_fill(&arenas[i][1], 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, adder, arenas[i]);
    for (int i = 0; i < THREADS; i++) {
        void *good = NULL;
        pthread_join(threads[i], &good);
        ok(good, "thread %d: its queue's commands are done", i);
        is_int(50 * (i + 1), arena_value(&arenas[i][1]), "thread %d: right sum", i);
        arena_free(&arenas[i][0]);
        arena_free(&arenas[i][1]);
    }
}

/* An array in a private context, also after other arrays: a kernel that used it would fail, and with it the context. */
static void
test_private_context(void)
{
    hoop_error error = {.size = sizeof(error)};
    hp_device *other = NULL;
    hp_queue *queue = NULL;
    if (!fake || device->ops->queue_open(device, &queue, &error) != HOOP_SUCCESS) {
        skip(1, "only the stand-in driver has such memory here");
        return;
    }
    arena to = arena_new(device, ARENA_DEVICE, 64);
    fake->apart(1);
    arena from = arena_new(device, ARENA_DEVICE, 64);
    fake->apart(0);
    hp_command command = {.elem = HOOP_INT32,
                          .wire = HOOP_INT32,
                          .sources = 1,
                          .destinations = 1,
                          .src = {{from.memory, 0}},
                          .dst = {{to.memory, 0}},
                          .count = 16};
    is_int(HOOP_ERR_UNSUPPORTED, hp_cuda_ops.open(&other, from.memory, &error), "no device for such an array");
    is_uint(0, queue->ops->submit(queue, &command), "no command either");
    is_int(HOOP_ERR_UNSUPPORTED, queue->ops->status(queue, &error), "... as the queue says");
    ok(strstr(error.text, "in a CUDA context of its own"), "%s", error.text);
    queue->ops->queue_close(queue);
    is_int(HOOP_SUCCESS, device->ops->queue_open(device, &queue, &error), "the context lives");
    command.src[0].ptr = to.memory;
    ok(cuda_test_wait(queue, queue->ops->submit(queue, &command)), "... and other arrays are as before");
    queue->ops->queue_close(queue);
    arena_free(&from);
    arena_free(&to);
}

static void
test_all(unsigned delay)
{
    hp_cuda_limits limits;
    device = cuda_test_open();
    hp_cuda_limits_of(device, &limits);
    diag("%s, device %d, %s", limits.name, limits.ordinal,
         limits.memory_ops ? "stream memory operations" : "kernels that write and wait");
    test_pointers();
    test_tickets();
    test_wake();
    test_threads();
    test_private_context();
    device->ops->close(device);
    if (fake)
        is_int(0, fake->live(), "the test has freed all objects of the driver");
}

int
main(void)
{
    tap_limit(240);
    fake = cuda_test_driver();
    plan_lazy();
    cuda_test_variants(fake, test_all);
    return 0;
}
