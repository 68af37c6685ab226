/* SPDX-License-Identifier: MIT */
/*
 * cuda_gate: users' streams. A mark is an event in one; a gate is a word of host memory that one waits for. A gate's
 * word only grows, and a stream waits for "at least", so a word can serve the next gate at once, even while the stream
 * that was let through has not noticed yet. Opening a gate calls no driver: it works from any thread and after any
 * error.
 */
#include "gpu/cuda_room.h"

#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <stdlib.h>

enum { GATES = 4096, BYTES = GATES * (int)sizeof(uint32_t) };

struct hp_gate {
    hp_gate *next; /* in the device's pool */
    hp_cuda_device *device;
    _Atomic uint32_t *word;
    hp_cu_pointer word_device;
    uint32_t target; /* the stream goes on when the word has come this far */
};

/* A block of gates; more are made when thousands are closed at once. */
struct hp_cuda_gates {
    hp_cuda_gates *next;
    _Atomic uint32_t *words;
    hp_gate gates[GATES];
};

static hp_cuda_device *
as_cuda(hp_device *device)
{
    return (hp_cuda_device *)device;
}

/* A captured stream replays its operations later, without us. Stream NULL would wait for one that is being captured. */
static hoop_result
check_capture(hp_cuda_device *device, void *stream, hoop_error *error)
{
    int status = HP_CU_CAPTURE_NONE;
    hp_cu_result asked = device->driver->stream_capturing(stream, &status);
    int implicit = asked == HP_CU_CAPTURE_IMPLICIT;
    hoop_result result =
        hp_cuda_check(error, implicit ? HP_CU_SUCCESS : asked, "cuStreamIsCapturing", "looking at the caller's stream");

    if (implicit || (result == HOOP_SUCCESS && status != HP_CU_CAPTURE_NONE))
        return hp_err_set(error, HOOP_ERR_UNSUPPORTED,
                          "the stream%s is being captured into a CUDA graph, which hoop does not support: start the "
                          "operation before cudaStreamBeginCapture or after cudaStreamEndCapture",
                          implicit ? ", or another one that the default stream waits for," : "");
    return result;
}

/* --- marks -------------------------------------------------------------------------------------------------------- */

static hp_mark *
take_mark(hp_cuda_device *device, hoop_error *error)
{
    pthread_mutex_lock(&device->lock);
    hp_mark *mark = device->marks;
    if (mark != NULL)
        device->marks = mark->next;
    pthread_mutex_unlock(&device->lock);
    if (mark != NULL)
        return mark;
    mark = hp_alloc(1, sizeof *mark);
    if (mark == NULL) {
        hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory while marking a stream");
        return NULL;
    }
    mark->device = device;
    if (hp_cuda_check(error, device->driver->event_create(&mark->event, HP_CU_EVENT_NO_TIMING), "cuEventCreate",
                      "marking a stream") == HOOP_SUCCESS)
        return mark;
    free(mark);
    return NULL;
}

static hoop_result
mark_stream(hp_cuda_device *device, void *stream, hp_mark **out, hoop_error *error)
{
    hoop_result result = check_capture(device, stream, error);
    if (result != HOOP_SUCCESS)
        return result;
    hoop_error why = {.size = sizeof why};
    hp_mark *mark = take_mark(device, &why);
    if (mark == NULL) {
        if (error != NULL)
            *error = why;
        return why.code;
    }
    result = hp_cuda_check(error, device->driver->event_record(mark->event, stream), "cuEventRecord",
                           "marking the caller's stream (does it belong to the GPU of the arrays?)");
    if (result == HOOP_SUCCESS)
        *out = mark;
    else
        hp_cuda_unmark(mark);
    return result;
}

hoop_result
hp_cuda_mark(hp_device *base, void *stream, hp_mark **mark, hoop_error *error)
{
    hp_cuda_device *device = as_cuda(base);
    hp_cu_context before;

    *mark = NULL;
    hoop_result result = hp_cuda_enter(device, &before, error);
    if (result == HOOP_SUCCESS)
        result = mark_stream(device, stream, mark, error);
    hp_cuda_leave(device, before);
    return result;
}

/*
 * A failure is the queue's: without the wait its later jobs must not run. They may have to wait until the caller has
 * learned that the earlier ones are done, since a mark can lie behind such an operation's gate; so those get a wake of
 * their own.
 */
hoop_result
hp_cuda_follow(hp_queue *base, hp_mark *mark, hoop_error *error)
{
    hp_cuda_queue *queue = (hp_cuda_queue *)base;
    hp_cuda_device *device = queue->device;
    hp_cu_context before;

    if (queue->status.code != HOOP_SUCCESS)
        return hp_cuda_status(base, error);
    if (atomic_load_explicit(queue->counter, memory_order_relaxed) < queue->submitted)
        hp_cuda_expect(queue);
    if (hp_cuda_enter(device, &before, &queue->status) == HOOP_SUCCESS)
        hp_cuda_check(&queue->status, device->driver->stream_wait_event(queue->stream, mark->event, 0),
                      "cuStreamWaitEvent", "ordering jobs after the caller's stream");
    hp_cuda_leave(device, before);
    if (queue->status.code != HOOP_SUCCESS && error != NULL)
        *error = queue->status;
    return queue->status.code;
}

/* A wait keeps what it was given, so the event may be recorded anew at once. */
void
hp_cuda_unmark(hp_mark *mark)
{
    hp_cuda_device *device = mark->device;

    pthread_mutex_lock(&device->lock);
    mark->next = device->marks;
    device->marks = mark;
    pthread_mutex_unlock(&device->lock);
}

hoop_result
hp_cuda_fence(hp_queue *queue, void *stream, hoop_error *error)
{
    hp_mark *mark = NULL;
    hoop_result result = hp_cuda_mark(&((hp_cuda_queue *)queue)->device->base, stream, &mark, error);

    if (result != HOOP_SUCCESS || mark == NULL)
        return result;
    result = hp_cuda_follow(queue, mark, error);
    hp_cuda_unmark(mark);
    return result;
}

/* --- gates -------------------------------------------------------------------------------------------------------- */

static hoop_result
fill_block(hp_cuda_device *device, hp_cuda_gates *block, hoop_error *error)
{
    block->words = hp_pages(BYTES);
    if (block->words == NULL)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory while holding a stream");
    hoop_result result = hp_cuda_enroll(&device->base, block->words, BYTES, error);
    if (result != HOOP_SUCCESS) {
        hp_pages_free(block->words, BYTES);
        return result;
    }
    hp_cu_pointer words = hp_cuda_page(device, block->words);
    for (unsigned i = 0; i < GATES; i++) {
        block->gates[i].device = device;
        block->gates[i].word = &block->words[i];
        block->gates[i].word_device = words + i * sizeof(uint32_t);
        block->gates[i].next = i + 1 < GATES ? &block->gates[i + 1] : NULL;
    }
    return HOOP_SUCCESS;
}

static void
add_block(hp_cuda_device *device, hp_cuda_gates *block)
{
    pthread_mutex_lock(&device->lock);
    block->next = device->gate_blocks;
    device->gate_blocks = block;
    block->gates[GATES - 1].next = device->gates;
    device->gates = &block->gates[0];
    pthread_mutex_unlock(&device->lock);
}

hoop_result
hp_cuda_gates_new(hp_cuda_device *device, hoop_error *error)
{
    hp_cuda_gates *block = hp_alloc(1, sizeof *block);

    if (block == NULL)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory while holding a stream");
    hoop_result result = fill_block(device, block, error);
    if (result == HOOP_SUCCESS)
        add_block(device, block);
    else
        free(block);
    return result;
}

static hp_gate *
take_gate(hp_cuda_device *device)
{
    pthread_mutex_lock(&device->lock);
    hp_gate *gate = device->gates;
    if (gate != NULL)
        device->gates = gate->next;
    pthread_mutex_unlock(&device->lock);
    return gate;
}

static void
give_gate(hp_gate *gate)
{
    hp_cuda_device *device = gate->device;

    pthread_mutex_lock(&device->lock);
    gate->next = device->gates;
    device->gates = gate;
    pthread_mutex_unlock(&device->lock);
}

static hoop_result
hold(hp_gate *gate, void *stream, hoop_error *error)
{
    hp_cuda_device *device = gate->device;
    hp_kernel_args args = {.src = {(const void *)(uintptr_t)gate->word_device}, .value = gate->target};
    void *parameters[] = {&args};

    if (device->memory_ops)
        return hp_cuda_check(error,
                             device->driver->stream_wait_32(stream, gate->word_device, gate->target, HP_CU_WAIT_GEQ),
                             "cuStreamWaitValue32", "holding the caller's stream");
    return hp_cuda_check(
        error,
        device->driver->launch_kernel(device->kernels[HP_CUDA_GATE], 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL),
        "cuLaunchKernel", "holding the caller's stream");
}

static hoop_result
close_gate(hp_cuda_device *device, void *stream, hp_gate **out, hoop_error *error)
{
    hoop_result result = check_capture(device, stream, error);
    hp_gate *gate = NULL;

    while (result == HOOP_SUCCESS && (gate = take_gate(device)) == NULL)
        result = hp_cuda_gates_new(device, error);
    if (result != HOOP_SUCCESS)
        return result;
    gate->target = atomic_load_explicit(gate->word, memory_order_relaxed) + 1;
    result = hold(gate, stream, error);
    if (result == HOOP_SUCCESS)
        *out = gate;
    else
        give_gate(gate);
    return result;
}

hoop_result
hp_cuda_gate_close(hp_device *base, void *stream, hp_gate **gate, hoop_error *error)
{
    hp_cuda_device *device = as_cuda(base);
    hp_cu_context before;

    *gate = NULL;
    hoop_result result = hp_cuda_enter(device, &before, error);
    if (result == HOOP_SUCCESS)
        result = close_gate(device, stream, gate, error);
    hp_cuda_leave(device, before);
    return result;
}

void
hp_cuda_gate_open(hp_gate *gate)
{
    atomic_store_explicit(gate->word, gate->target, memory_order_release);
    give_gate(gate);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

void
hp_cuda_streams_free(hp_cuda_device *device)
{
    while (device->marks != NULL) {
        hp_mark *mark = device->marks;
        device->marks = mark->next;
        (void)device->driver->event_destroy(mark->event);
        free(mark);
    }
    while (device->gate_blocks != NULL) {
        hp_cuda_gates *block = device->gate_blocks;
        device->gate_blocks = block->next;
        hp_cuda_unenroll(&device->base, block->words);
        hp_pages_free(block->words, BYTES);
        free(block);
    }
}
