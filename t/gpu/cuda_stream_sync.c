/* SPDX-License-Identifier: MIT */
/*
 * Callers' streams on the CUDA backend: marks behind what a stream holds, gates that block one, captured streams, and a
 * stream that reads its gate after the device was closed.
 */
#include "gpu/cuda_driver.h"
#include "t/gpu/cuda_test.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = ARENA_VALUES };

static hp_device *device;
static const hoop_fake_cuda *fake;
static unsigned delay_us; /* the stand-in's, of every operation of a stream */

/* A stream with a gate of the test's: work behind it runs when the test opens the gate. */
enum { OBJECTS_OF_PAGE = 2 }; /* its pinned memory, and the module with the kernels that read it */
static long kept;             /* objects of the driver for pages that a late stream may read */

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
    for (tap_wait w = {0}; !queue->ops->passed(queue, mark) && tap_waits(&w);)
        usleep(50);
    return queue->ops->passed(queue, mark);
}

static void
test_mark(void)
{
    hoop_error error = {.size = sizeof(error)};
    hp_queue *queue = cuda_test_queue(device);
    arena in = arena_new(device, ARENA_DEVICE, COUNT * sizeof(int32_t));
    arena out = arena_new(device, ARENA_PLAIN, COUNT * sizeof(int32_t));
    arena slot = arena_new(device, ARENA_SLOT, COUNT * sizeof(int32_t));
    held_stream user = hold();
    hp_mark *mark = NULL;
    arena_fill(&in, 1);
    arena_fill(&slot, 2);
    arena_fill(&out, 0);
    is_int(HOOP_SUCCESS,
           hp_cuda_stream_copy(device, user.stream, in.memory, slot.memory, COUNT * sizeof(int32_t), &error),
           "the caller's stream will write the array, but is blocked");
    is_int(HOOP_SUCCESS, device->ops->mark(device, user.stream, &mark, &error), "mark");
    usleep(20000);
    ok(!queue->ops->passed(queue, mark), "the mark is not passed");
    is_int(HOOP_SUCCESS, queue->ops->drain(queue), "and the queue waits for nothing");
    device->ops->gate_open(user.gate);
    ok(wait_passed(queue, mark), "the stream goes on, past the mark");
    device->ops->unmark(mark);
    hp_command command = cuda_test_copy(out.memory, in.memory, COUNT);
    ok(cuda_test_wait(queue, queue->ops->submit(queue, &command)), "a command then, its result in plain host memory");
    is_int(2, arena_value(&out), "saw what the stream wrote");
    hp_cuda_stream_wait(device, user.stream, &error);
    hp_cuda_stream_close(device, user.stream);
    queue->ops->queue_close(queue);
    arena_free(&in);
    arena_free(&out);
    arena_free(&slot);
}

/* A mark that is given back while its stream is blocked is not reused before the stream has written it. */
static void
test_given_back(void)
{
    enum { AGAIN = 100 };
    hoop_error error = {.size = sizeof(error)};
    hp_queue *queue = cuda_test_queue(device);
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
 * Two operations on one stream, as hoop_allreduce_on_stream makes them: the second is started before the first has
 * submitted its commands. The second's mark is behind the first's gate.
 */
static void
test_marks(void)
{
    hoop_error error = {.size = sizeof(error)};
    hp_queue *queue = cuda_test_queue(device);
    arena array = arena_new(device, ARENA_DEVICE, COUNT * sizeof(int32_t));
    arena one = arena_new(device, ARENA_SLOT, COUNT * sizeof(int32_t));
    void *stream = NULL;
    hp_mark *marks[2];
    hp_gate *gates[2];
    arena_fill(&array, 10);
    arena_fill(&one, 1);
    if (hp_cuda_stream_open(device, &stream, &error) != HOOP_SUCCESS)
        bail("%s", error.text);
    for (int i = 0; i < 2; i++) {
        is_int(HOOP_SUCCESS, device->ops->mark(device, stream, &marks[i], &error), "operation %d is marked", i);
        is_int(HOOP_SUCCESS, device->ops->gate_close(device, stream, &gates[i], &error), "and holds the stream");
    }
    for (int i = 0; i < 2; i++) {
        hp_command command = cuda_test_add(array.memory, one.memory, COUNT);
        ok(wait_passed(queue, marks[i]) && (i > 0 || !queue->ops->passed(queue, marks[1])), "the mark is passed");
        device->ops->unmark(marks[i]);
        queue->ops->submit(queue, &command);
        ok(cuda_test_wait(queue, queue->ops->submit(queue, &command)), "they run");
        device->ops->gate_open(gates[i]);
    }
    is_int(HOOP_SUCCESS, hp_cuda_stream_wait(device, stream, &error), "the stream is let through");
    is_int(14, arena_value(&array), "all four commands ran");
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
    arena to = arena_new(device, ARENA_DEVICE,
                         COUNT * sizeof(int32_t)); /* the driver would wait for a copy to pageable memory */
    void *streams[STREAMS];
    hp_gate *gates[ROUNDS];
    int closed = 0;
    arena_fill(&from, 5);
    arena_fill(&to, 0);
    for (int i = 0; i < STREAMS; i++) {
        if (hp_cuda_stream_open(device, &streams[i], &error) != HOOP_SUCCESS)
            bail("%s", error.text);
    }
    for (int i = 0; i < ROUNDS; i++)
        closed += device->ops->gate_close(device, streams[i % STREAMS], &gates[i], &error) == HOOP_SUCCESS;
    is_int(ROUNDS, closed, "hundreds of gates in three streams");
    hp_cuda_stream_copy(device, streams[0], to.memory, from.memory, COUNT * sizeof(int32_t), &error);
    usleep(10000);
    is_int(0, arena_value(&to), "the stream is blocked");
    for (int i = ROUNDS; i-- > 0;) /* in any order: here backwards */
        device->ops->gate_open(gates[i]);
    for (int i = 0; i < STREAMS; i++)
        is_int(HOOP_SUCCESS, hp_cuda_stream_wait(device, streams[i], &error), "stream %d is through", i);
    is_int(5, arena_value(&to), "and did its work");
    for (int i = 0; i < ROUNDS; i++) { /* a gate is reused before the stream has read its word */
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

/*
 * A stream may read an opened gate later: the gate's page must remain mapped after the device was closed. A device that was
 * closed has waited a moment for the stream. If the stream is later than that, its page stays until the process ends.
 */
static void
test_gate_page(void)
{
    hoop_error error = {.size = sizeof(error)};
    long before = fake ? fake->live() : 0;
    hp_device *other = NULL;
    hp_queue *queue = NULL; /* opening it loads the kernels: none may be loaded while a stream is blocked */
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
    if (fake) {
        long left = fake->live() - before;
        ok(left == 0 || left == OBJECTS_OF_PAGE, "%ld objects stay for it", left);
        kept += left;
        fake->delay(delay_us);
    }
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

/* Marks the stream, runs commands, and blocks the stream with a gate at the end. */
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
    usleep(6000); /* longer than the interval of hp_cuda_check_health */
    queue->ops->submit(queue, &command);
    queue->ops->done(queue);
    is_int(HOOP_SUCCESS, queue->ops->drain(queue), "... and the queue is well");
    return gate;
}

/* The default stream would wait for the captured one. */
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

/* While another thread captures a graph, calls that are not part of it work, and do not invalidate it. */
static void
test_capture_elsewhere(void)
{
    const hp_cuda_driver *driver = NULL;
    int mode = 1; /* first the mode that this thread chose, then the default */
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

static void
test_all(unsigned delay)
{
    delay_us = delay;
    device = cuda_test_open();
    test_mark();
    test_given_back();
    test_marks();
    test_gates();
    test_gate_page();
    test_capture();
    test_capture_elsewhere();
    device->ops->close(device);
    if (fake)
        is_int(kept, fake->live(), "the test has freed all other objects of the driver");
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
