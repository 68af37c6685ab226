/* SPDX-License-Identifier: MIT */
/*
 * The CUDA backend's order: tickets, wakes, several queues and threads, marks behind a user's stream, gates that hold
 * one, and that a stream may come to a mark after all is over.
 */
#include "base/clock.h"
#include "gpu/cuda_driver.h"
#include "t/gpu/cuda_test.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 1000 };

static hp_device *device;
static const hoop_fake_cuda *fake;
static unsigned lateness; /* of the operations of streams, at most, in microseconds */

static hp_queue *
new_queue(void)
{
    hoop_error error = {.size = sizeof(error)};
    hp_queue *queue = NULL;
    if (device->ops->queue_open(device, &queue, &error) != HOOP_SUCCESS)
        bail("%s", error.text);
    return queue;
}

static hp_command
copy_command(void *to, const void *from)
{
    return (hp_command){.elem = HOOP_INT32,
                        .wire = HOOP_INT32,
                        .sources = 1,
                        .destinations = 1,
                        .src = {{(void *)(uintptr_t)from, 0}},
                        .dst = {{to, 0}},
                        .count = COUNT};
}

/* dst = dst + src */
static hp_command
add_command(void *to, const void *from)
{
    hp_command command = copy_command(to, from);
    command.sources = 2;
    command.src[1].ptr = to;
    return command;
}

static void
fill(const arena *a, int value)
{
    int32_t numbers[COUNT];
    for (int i = 0; i < COUNT; i++)
        numbers[i] = value;
    arena_put(a, numbers, sizeof(numbers));
}

/* The one value that all elements have, or -1. */
static int
all(const arena *a)
{
    int32_t numbers[COUNT];
    arena_get(a, numbers, sizeof(numbers));
    for (int i = 1; i < COUNT; i++) {
        if (numbers[i] != numbers[0])
            return -1;
    }
    return numbers[0];
}

static void
test_tickets(void)
{
    hp_queue *queue = new_queue();
    arena slot = arena_new(device, ARENA_SLOT, COUNT * sizeof(int32_t));
    arena sum = arena_new(device, ARENA_DEVICE, COUNT * sizeof(int32_t));
    int in_order = 1;
    uint64_t seen = 0;
    fill(&slot, 1);
    fill(&sum, 0);
    for (uint64_t i = 1; i <= 100; i++) {
        hp_command command = add_command(sum.memory, slot.memory);
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
    is_int(90, all(&sum), "each command ran once");
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
    hp_queue *queue = new_queue();
    arena slot = arena_new(device, ARENA_SLOT, COUNT * sizeof(int32_t));
    arena to = arena_new(device, ARENA_DEVICE, COUNT * sizeof(int32_t));
    int fd = queue->ops->wake_fd(queue);
    hp_command command = copy_command(to.memory, slot.memory);
    int woken = 0;
    ok(fd > 2 && !readable(fd, 0), "the descriptor is quiet at first");
    queue->ops->wake_arm(queue);
    ok(!readable(fd, 0), "with nothing under way nobody is woken");
    uint64_t first = queue->ops->submit(queue, &command);
    queue->ops->drain(queue);
    queue->ops->wake_arm(queue);
    ok(first == 1 && readable(fd, 1000), "a command that ended unseen wakes at once");
    queue->ops->done(queue);
    ok(!readable(fd, 0), "asking for done takes the wake");
    queue->ops->wake_arm(queue);
    ok(!readable(fd, 0), "and then there is nothing to be woken for");
    for (int i = 0; i < 200; i++) {
        uint64_t ticket = queue->ops->submit(queue, &command);
        queue->ops->wake_arm(queue);
        queue->ops->wake_arm(queue);
        while (queue->ops->done(queue) < ticket && readable(fd, 5000))
            continue;
        woken += queue->ops->done(queue) == ticket;
    }
    is_int(200, woken, "a sleeper is woken for each of 200 commands");
    while (readable(fd, 200)) /* a wake that was ordered for the last of them may still be on its way */
        queue->ops->done(queue);
    queue->ops->submit(queue, &command);
    queue->ops->drain(queue);
    queue->ops->done(queue);
    ok(!readable(fd, 20), "nobody asked, nobody is woken");
    queue->ops->queue_close(queue);
    arena_free(&slot);
    arena_free(&to);
}

static void *
adder(void *arg)
{
    arena *arenas = arg;
    hp_queue *queue = new_queue();
    uint64_t ticket = 0;
    for (int i = 0; i < 50; i++) {
        hp_command command = add_command(arenas[1].memory, arenas[0].memory);
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
        fill(&arenas[i][0], i + 1);
        fill(&arenas[i][1], 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, adder, arenas[i]);
    for (int i = 0; i < THREADS; i++) {
        void *good = NULL;
        pthread_join(threads[i], &good);
        ok(good, "thread %d: its queue's commands are done", i);
        is_int(50 * (i + 1), all(&arenas[i][1]), "thread %d: right sum", i);
        arena_free(&arenas[i][0]);
        arena_free(&arenas[i][1]);
    }
}

/* A stream with a gate of its own: what the user queues behind it happens when we let it. */
typedef struct held_stream {
    void *stream;
    hp_gate *gate;
} held_stream;

static held_stream
hold(void)
{
    hoop_error error = {.size = sizeof(error)};
    held_stream held = {0};
    if (hp_cuda_stream_open(device, &held.stream, &error) != HOOP_SUCCESS ||
        device->ops->gate_close(device, held.stream, &held.gate, &error) != HOOP_SUCCESS)
        bail("%s", error.text);
    return held;
}

static int
wait_passed(hp_queue *queue, hp_mark *mark)
{
    uint64_t deadline = hp_now() + 10 * HP_SEC;
    while (!queue->ops->passed(queue, mark) && hp_now() < deadline)
        usleep(50);
    return queue->ops->passed(queue, mark);
}

static void
test_mark(void)
{
    hoop_error error = {.size = sizeof(error)};
    hp_queue *queue = new_queue();
    arena in = arena_new(device, ARENA_DEVICE, COUNT * sizeof(int32_t));
    arena out = arena_new(device, ARENA_PLAIN, COUNT * sizeof(int32_t));
    arena slot = arena_new(device, ARENA_SLOT, COUNT * sizeof(int32_t));
    held_stream user = hold();
    hp_mark *mark = NULL;
    fill(&in, 1);
    fill(&slot, 2);
    fill(&out, 0);
    is_int(HOOP_SUCCESS,
           hp_cuda_stream_copy(device, user.stream, in.memory, slot.memory, COUNT * sizeof(int32_t), &error),
           "the user's stream will write the array, but is held");
    is_int(HOOP_SUCCESS, device->ops->mark(device, user.stream, &mark, &error), "mark");
    usleep(20000);
    ok(!queue->ops->passed(queue, mark), "the mark is not passed");
    is_int(HOOP_SUCCESS, queue->ops->drain(queue), "and the queue waits for nothing");
    device->ops->gate_open(user.gate);
    ok(wait_passed(queue, mark), "the stream goes on, past the mark");
    device->ops->unmark(mark);
    hp_command command = copy_command(out.memory, in.memory);
    ok(cuda_test_wait(queue, queue->ops->submit(queue, &command)), "a command then, its result in plain host memory");
    is_int(2, all(&out), "saw what the stream wrote");
    hp_cuda_stream_wait(device, user.stream, &error);
    hp_cuda_stream_close(device, user.stream);
    queue->ops->queue_close(queue);
    arena_free(&in);
    arena_free(&out);
    arena_free(&slot);
}

/* A mark given back while its stream is held serves nobody before the stream has come to it. */
static void
test_given_back(void)
{
    enum { AGAIN = 100 };
    hoop_error error = {.size = sizeof(error)};
    hp_queue *queue = new_queue();
    hp_mark *early = NULL, *mark = NULL;
    void *stream = NULL;
    int passed = 0;
    if (hp_cuda_stream_open(device, &stream, &error) != HOOP_SUCCESS)
        bail("%s", error.text);
    held_stream user = hold();
    if (device->ops->mark(device, user.stream, &early, &error) != HOOP_SUCCESS)
        bail("%s", error.text);
    device->ops->unmark(early);
    for (int i = 0; i < AGAIN; i++) {
        device->ops->mark(device, stream, &mark, &error);
        passed += mark != early && wait_passed(queue, mark);
        device->ops->unmark(mark);
    }
    is_int(AGAIN, passed, "a mark that was given back early is not used again while its stream is held");
    device->ops->gate_open(user.gate);
    hp_cuda_stream_wait(device, user.stream, &error);
    device->ops->mark(device, stream, &mark, &error);
    ok(wait_passed(queue, mark), "and when that has gone on, marks are passed as before");
    device->ops->unmark(mark);
    hp_cuda_stream_wait(device, stream, &error);
    hp_cuda_stream_close(device, stream);
    hp_cuda_stream_close(device, user.stream);
    queue->ops->queue_close(queue);
}

/*
 * Two operations on one stream, as hoop_allreduce_on_stream makes them: the second is started while the first has
 * commands yet to submit. The second's mark lies behind the first's gate.
 */
static void
test_marks(void)
{
    hoop_error error = {.size = sizeof(error)};
    hp_queue *queue = new_queue();
    arena array = arena_new(device, ARENA_DEVICE, COUNT * sizeof(int32_t));
    arena one = arena_new(device, ARENA_SLOT, COUNT * sizeof(int32_t));
    void *stream = NULL;
    hp_mark *marks[2];
    hp_gate *gates[2];
    fill(&array, 10);
    fill(&one, 1);
    if (hp_cuda_stream_open(device, &stream, &error) != HOOP_SUCCESS)
        bail("%s", error.text);
    for (int i = 0; i < 2; i++) {
        is_int(HOOP_SUCCESS, device->ops->mark(device, stream, &marks[i], &error), "operation %d is marked", i);
        is_int(HOOP_SUCCESS, device->ops->gate_close(device, stream, &gates[i], &error), "and holds the stream");
    }
    for (int i = 0; i < 2; i++) {
        hp_command command = add_command(array.memory, one.memory);
        ok(wait_passed(queue, marks[i]) && (i > 0 || !queue->ops->passed(queue, marks[1])), "the mark is passed");
        device->ops->unmark(marks[i]);
        queue->ops->submit(queue, &command);
        ok(cuda_test_wait(queue, queue->ops->submit(queue, &command)), "they run");
        device->ops->gate_open(gates[i]);
    }
    is_int(HOOP_SUCCESS, hp_cuda_stream_wait(device, stream, &error), "the stream is let through");
    is_int(14, all(&array), "all four commands ran");
    hp_cuda_stream_close(device, stream);
    queue->ops->queue_close(queue);
    arena_free(&array);
    arena_free(&one);
}

static void
test_gates(void)
{
    enum { ROUNDS = 300, STREAMS = 3 };
    hoop_error error = {.size = sizeof(error)};
    arena from = arena_new(device, ARENA_SLOT, COUNT * sizeof(int32_t));
    arena to = arena_new(device, ARENA_DEVICE, COUNT * sizeof(int32_t)); /* a copy to the host would be waited for */
    void *streams[STREAMS];
    hp_gate *gates[ROUNDS];
    int closed = 0;
    fill(&from, 5);
    fill(&to, 0);
    for (int i = 0; i < STREAMS; i++) {
        if (hp_cuda_stream_open(device, &streams[i], &error) != HOOP_SUCCESS)
            bail("%s", error.text);
    }
    for (int i = 0; i < ROUNDS; i++)
        closed += device->ops->gate_close(device, streams[i % STREAMS], &gates[i], &error) == HOOP_SUCCESS;
    is_int(ROUNDS, closed, "hundreds of gates in three streams");
    hp_cuda_stream_copy(device, streams[0], to.memory, from.memory, COUNT * sizeof(int32_t), &error);
    usleep(10000);
    is_int(0, all(&to), "the stream stands");
    for (int i = ROUNDS; i-- > 0;) /* in any order: here backwards */
        device->ops->gate_open(gates[i]);
    for (int i = 0; i < STREAMS; i++)
        is_int(HOOP_SUCCESS, hp_cuda_stream_wait(device, streams[i], &error), "stream %d is through", i);
    is_int(5, all(&to), "and did its work");
    for (int i = 0; i < ROUNDS; i++) { /* a word serves again before the stream has noticed */
        device->ops->gate_close(device, streams[0], &gates[0], &error);
        device->ops->gate_open(gates[0]);
    }
    is_int(HOOP_SUCCESS, hp_cuda_stream_wait(device, streams[0], &error),
           "gates opened at once let the stream through");
    for (int i = 0; i < STREAMS; i++)
        hp_cuda_stream_close(device, streams[i]);
    arena_free(&from);
    arena_free(&to);
}

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
test_capture(void)
{
    hoop_error error = {.size = sizeof(error)};
    hp_mark *mark = NULL;
    hp_gate *gate = NULL;
    if (!fake) {
        skip(3, "only the stand-in driver can pretend to capture");
        return;
    }
    fake->capture(1);
    is_int(HOOP_ERR_UNSUPPORTED, device->ops->mark(device, NULL, &mark, &error), "a captured stream cannot be marked");
    ok(strstr(error.text, "CUDA graph"), "and the sentence says why");
    is_int(HOOP_ERR_UNSUPPORTED, device->ops->gate_close(device, NULL, &gate, &error), "nor held");
    fake->capture(0);
}

/* An array of a context of its own, also one that comes after others: a kernel would die of it, and all with it. */
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

/* On streams of one's own, held by a gate at the end. */
static hp_gate *
work_beside_capture(hp_queue *queue, void *stream, const arena *from, const arena *to)
{
    hoop_error error = {.size = sizeof(error)};
    hp_command command = {.elem = HOOP_INT32,
                          .wire = HOOP_INT32,
                          .sources = 1,
                          .destinations = 1,
                          .src = {{from->memory, 0}},
                          .dst = {{to->memory, 0}},
                          .count = 16};
    hp_mark *mark = NULL;
    hp_gate *gate = NULL;
    is_int(HOOP_SUCCESS, device->ops->mark(device, stream, &mark, &error), "... which is marked");
    ok(wait_passed(queue, mark), "... and passed");
    device->ops->unmark(mark);
    is_int(HOOP_SUCCESS, device->ops->gate_close(device, stream, &gate, &error), "... and held");
    ok(cuda_test_wait(queue, queue->ops->submit(queue, &command)), "... a command is done");
    usleep(6000); /* long enough for a look at the queue's health */
    queue->ops->submit(queue, &command);
    queue->ops->done(queue);
    is_int(HOOP_SUCCESS, queue->ops->drain(queue), "... and the queue is well");
    return gate;
}

/* The default stream would wait for the one that is captured. */
static void
refuse_default_stream(void)
{
    hoop_error error = {.size = sizeof(error)};
    hp_mark *mark = NULL;
    hp_gate *gate = NULL;
    is_int(HOOP_ERR_UNSUPPORTED, device->ops->mark(device, NULL, &mark, &error), "the default stream is refused");
    ok(strstr(error.text, "CUDA graph"), "%s", error.text);
    is_int(HOOP_ERR_UNSUPPORTED, device->ops->gate_close(device, NULL, &gate, &error), "nor can it be held");
}

static void
open_and_close_beside_capture(void)
{
    hoop_error error = {.size = sizeof(error)};
    hp_queue *queue = NULL;
    hp_device *second = NULL;
    void *stream = NULL;
    is_int(HOOP_SUCCESS, hp_cuda_ops.open(&second, NULL, &error), "while another thread captures, a GPU opens");
    is_int(HOOP_SUCCESS, device->ops->queue_open(device, &queue, &error), "... and a queue");
    arena from = arena_new(device, ARENA_DEVICE, 64), to = arena_new(device, ARENA_SLOT, 64);
    is_int(HOOP_SUCCESS, hp_cuda_stream_open(device, &stream, &error), "... and a stream");
    hp_gate *gate = work_beside_capture(queue, stream, &from, &to);
    refuse_default_stream();
    if (gate)
        device->ops->gate_open(gate);
    hp_cuda_stream_close(device, stream);
    arena_free(&from);
    arena_free(&to);
    queue->ops->queue_close(queue);
    second->ops->close(second);
}

/* What is not the graph's business goes on, and leaves the graph alone. */
static void
test_capture_elsewhere(void)
{
    const hp_cuda_driver *driver = NULL;
    int mode = 1; /* this thread's own choice; then the usual one */
    if (!fake || hp_cuda_load(&driver, NULL) != HOOP_SUCCESS) {
        skip(1, "only the stand-in driver can pretend to capture");
        return;
    }
    driver->capture_mode(&mode);
    is_int(0, mode, "a thread's captures are global unless it chooses otherwise");
    for (int own = 1; own >= 0; own--) {
        fake->capture(2);
        open_and_close_beside_capture();
        is_int(0, fake->spoiled(), "the capture is whole");
        fake->capture(0);
        mode = 0;
        driver->capture_mode(&mode);
        is_int(own, mode, "the thread's capture mode is what it was");
    }
}

/* A stream that was let go may look at its gate a little later: the page is still there when the device is closed. */
static void
test_gate_page(void)
{
    hoop_error error = {.size = sizeof(error)};
    hp_device *other = NULL;
    hp_queue *queue = NULL; /* which loads its device's kernels: nothing may be loaded while a stream stands */
    hp_gate *gate = NULL;
    void *stream = NULL;
    if (hp_cuda_stream_open(device, &stream, &error) != HOOP_SUCCESS ||
        hp_cuda_ops.open(&other, NULL, &error) != HOOP_SUCCESS ||
        other->ops->queue_open(other, &queue, &error) != HOOP_SUCCESS)
        bail("%s", error.text);
    other->ops->queue_close(queue);
    if (fake)
        fake->delay(2000);
    is_int(HOOP_SUCCESS, other->ops->gate_close(other, stream, &gate, &error), "a stream is held");
    other->ops->gate_open(gate);
    other->ops->close(other);
    is_int(HOOP_SUCCESS, hp_cuda_stream_wait(device, stream, &error), "and comes to its gate after the end");
    hp_cuda_stream_close(device, stream);
    if (fake)
        fake->delay(lateness);
}

static void
test_all(void)
{
    hp_cuda_limits limits;
    hp_cuda_limits_of(device = cuda_test_open(), &limits);
    diag("%s, device %d, %s", limits.name, limits.ordinal,
         limits.memory_ops ? "stream memory operations" : "kernels that stamp and wait");
    test_pointers();
    test_tickets();
    test_wake();
    test_threads();
    test_mark();
    test_given_back();
    test_marks();
    test_gates();
    test_gate_page();
    test_capture();
    test_capture_elsewhere();
    test_private_context();
    device->ops->close(device);
    if (fake)
        is_int(0, fake->live(), "nothing of the driver's is left");
}

int
main(void)
{
    tap_limit(60);
    fake = cuda_test_driver();
    plan_lazy();
    test_all();
    if (!fake)
        return 0;
    fake->delay(lateness = 300); /* everything late, by different times */
    test_all();
    fake->memory_ops(0); /* kernels that stamp and wait */
    test_all();
    fake->jealous(1); /* calls that wait for all streams, as a driver's may */
    test_all();
    return 0;
}
