/* SPDX-License-Identifier: MIT */
/*
 * cuda_stream_sync: users' streams. A mark is a word of host memory that one writes when it gets there; a gate is one
 * that it waits for. A gate's word only grows, and a stream waits for "at least", so a word can serve the next gate at
 * once, even while the stream that was let through has not noticed yet. A mark's word serves again when it has been
 * written. Looking at a mark and opening a gate call no driver: they work from any thread, after any error, and while
 * others are stuck in the driver.
 */
#include "base/err.h"
#include "base/mem.h"
#include "gpu/cuda_internal.h"

#include <stdlib.h>
#include <time.h>

enum { MOMENTS = 100, GATES = 4096, BYTES = GATES * (int)(sizeof(uint64_t) + sizeof(uint32_t)) };

struct hp_mark {
    hp_mark *next; /* in the device's pool */
    hp_cuda_device *device;
    _Atomic uint64_t *word;
    hp_cu_pointer word_device;
    uint64_t target; /* what the stream writes last */
};

struct hp_gate {
    hp_gate *next; /* in the device's pool */
    hp_cuda_device *device;
    _Atomic uint32_t *word;
    hp_cu_pointer word_device;
    uint32_t target; /* the stream goes on when the word has come this far */
    int closed;      /* under the device's lock */
};

/*
 * A block of marks and gates; more are made when thousands are in use at once. Its pages: the marks' words, the gates'.
 */
struct hp_cuda_sync_block {
    hp_cuda_sync_block *next;
    hp_cu_module module; /* of one that is kept: kernels that write and wait there */
    void *words;
    hp_mark marks[GATES];
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

/* --- marks --- */

static int
is_past(const hp_mark *mark)
{
    return atomic_load_explicit(mark->word, memory_order_acquire) == mark->target;
}

/* One that no stream has yet to write: of those that were given back early, a write may still come. */
static hp_mark *
take_mark(hp_cuda_device *device)
{
    hp_mark **at;
    pthread_mutex_lock(&device->lock);
    for (at = &device->marks; *at && !is_past(*at); at = &(*at)->next)
        continue;
    hp_mark *mark = *at;
    if (mark)
        *at = mark->next;
    pthread_mutex_unlock(&device->lock);
    return mark;
}

/* The stream's word that it has come so far, after all writes before it. */
static hoop_result
write_word(const hp_mark *mark, void *stream, hoop_error *error)
{
    hp_cuda_device *device = mark->device;
    const char *doing = "marking the caller's stream (does it belong to the GPU of the arrays?)";
    hp_kernel_args args = {.dst = {(void *)(uintptr_t)mark->word_device}, .value = mark->target + 1};
    void *parameters[] = {&args};
    if (device->memory_ops)
        return hp_cuda_check(error, device->driver->stream_write_64(stream, mark->word_device, mark->target + 1, 0),
                             "cuStreamWriteValue64", doing);
    return hp_cuda_check(
        error,
        device->driver->launch_kernel(device->kernels[HP_CUDA_STAMP], 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL),
        "cuLaunchKernel", doing);
}

static hoop_result
write_mark(hp_mark *mark, void *stream, hoop_error *error)
{
    hoop_result result = write_word(mark, stream, error);
    if (result == HOOP_SUCCESS)
        mark->target++;
    return result;
}

/* Making more may wait for streams: so before one is stopped. */
static hoop_result
reserve_mark(hp_cuda_device *device, hp_mark **mark, hoop_error *error)
{
    hoop_result result = HOOP_SUCCESS;
    while (result == HOOP_SUCCESS && !(*mark = take_mark(device)))
        result = hp_cuda_sync_block_new(device, error);
    return result;
}

static hoop_result
mark_stream(hp_cuda_device *device, void *stream, hp_mark **out, hoop_error *error)
{
    hoop_result result = check_capture(device, stream, error);
    hp_mark *mark = NULL;
    if (result == HOOP_SUCCESS)
        result = reserve_mark(device, &mark, error);
    if (result != HOOP_SUCCESS)
        return result;
    result = write_mark(mark, stream, error);
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

/* A stream on a GPU that has died never writes. */
int
hp_cuda_passed(hp_queue *queue, hp_mark *mark)
{
    int past = is_past(mark);
    if (!past)
        hp_cuda_check_health((hp_cuda_queue *)queue);
    return past;
}

void
hp_cuda_unmark(hp_mark *mark)
{
    hp_cuda_device *device = mark->device;
    pthread_mutex_lock(&device->lock);
    mark->next = device->marks;
    device->marks = mark;
    pthread_mutex_unlock(&device->lock);
}

/* --- gates --- */

static hoop_result
fill_block(hp_cuda_device *device, hp_cuda_sync_block *block, hoop_error *error)
{
    block->words = hp_pages(BYTES);
    if (!block->words)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory while holding a stream");
    hoop_result result = hp_cuda_pin(&device->base, block->words, BYTES, error);
    if (result != HOOP_SUCCESS) {
        hp_pages_free(block->words, BYTES);
        return result;
    }
    hp_cu_pointer marks = hp_cuda_page(device, block->words), gates = marks + GATES * sizeof(uint64_t);
    _Atomic uint64_t *mark_words = block->words;
    _Atomic uint32_t *gate_words = (void *)(mark_words + GATES);
    for (unsigned i = 0; i < GATES; i++) {
        hp_mark *next_mark = i + 1 < GATES ? &block->marks[i + 1] : NULL;
        hp_gate *next_gate = i + 1 < GATES ? &block->gates[i + 1] : NULL;
        block->marks[i] = (hp_mark){next_mark, device, &mark_words[i], marks + i * sizeof(uint64_t), 0};
        block->gates[i] = (hp_gate){next_gate, device, &gate_words[i], gates + i * sizeof(uint32_t), 0, 0};
    }
    return HOOP_SUCCESS;
}

static void
add_block(hp_cuda_device *device, hp_cuda_sync_block *block)
{
    pthread_mutex_lock(&device->lock);
    block->next = device->sync_blocks;
    device->sync_blocks = block;
    block->marks[GATES - 1].next = device->marks;
    device->marks = &block->marks[0];
    block->gates[GATES - 1].next = device->gates;
    device->gates = &block->gates[0];
    pthread_mutex_unlock(&device->lock);
}

hoop_result
hp_cuda_sync_block_new(hp_cuda_device *device, hoop_error *error)
{
    hp_cuda_sync_block *block = hp_alloc(1, sizeof(*block));
    if (!block)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory while holding a stream");
    hoop_result result = fill_block(device, block, error);
    if (result == HOOP_SUCCESS)
        add_block(device, block);
    else
        free(block);
    return result;
}

static void
lift(const hp_gate *gate)
{
    atomic_store_explicit(gate->word, gate->target, memory_order_release);
}

/* Closed, unless all are open for good. */
static hp_gate *
take_gate(hp_cuda_device *device)
{
    pthread_mutex_lock(&device->lock);
    hp_gate *gate = device->gates;
    if (gate) {
        device->gates = gate->next;
        gate->target = atomic_load_explicit(gate->word, memory_order_relaxed) + 1;
        gate->closed = 1;
        if (atomic_load_explicit(&device->released, memory_order_relaxed))
            lift(gate);
    }
    pthread_mutex_unlock(&device->lock);
    return gate;
}

static void
give_gate(hp_gate *gate)
{
    hp_cuda_device *device = gate->device;
    pthread_mutex_lock(&device->lock);
    gate->closed = 0;
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
take_both(hp_cuda_device *device, hp_gate **gate, hp_mark **mark, hoop_error *error)
{
    hoop_result result = reserve_mark(device, mark, error);
    while (result == HOOP_SUCCESS && !(*gate = take_gate(device)))
        result = hp_cuda_sync_block_new(device, error);
    if (result != HOOP_SUCCESS && *mark)
        hp_cuda_unmark(*mark);
    return result;
}

/* Behind the gate the stream writes a mark: until then it looks at the gate's page. The mark is given back at once: one
 * whose stream has yet to come serves nobody, and keeps its block. */
static hoop_result
close_gate(hp_cuda_device *device, void *stream, hp_gate **out, hoop_error *error)
{
    hoop_result result = check_capture(device, stream, error);
    hp_gate *gate = NULL;
    hp_mark *behind = NULL;
    if (result == HOOP_SUCCESS)
        result = take_both(device, &gate, &behind, error);
    if (result != HOOP_SUCCESS)
        return result;
    result = hold(gate, stream, error);
    if (result == HOOP_SUCCESS)
        result = write_mark(behind, stream, error);
    hp_cuda_unmark(behind);
    if (result == HOOP_SUCCESS)
        *out = gate;
    else
        hp_cuda_gate_open(gate);
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
    lift(gate);
    give_gate(gate);
}

void
hp_cuda_release(hp_device *base)
{
    hp_cuda_device *device = as_cuda(base);
    pthread_mutex_lock(&device->lock);
    atomic_store_explicit(&device->released, 1, memory_order_release);
    for (hp_cuda_sync_block *block = device->sync_blocks; block; block = block->next) {
        for (int i = 0; i < GATES; i++) {
            if (block->gates[i].closed)
                lift(&block->gates[i]);
        }
    }
    pthread_mutex_unlock(&device->lock);
}

/* --- the end --- */

static hp_cuda_sync_block *kept; /* by the process, to its end: streams have yet to come to them */

static int
marks_left(const hp_cuda_sync_block *block)
{
    int left = 0;
    for (int i = 0; i < GATES; i++)
        left += !is_past(&block->marks[i]);
    return left;
}

/* Whether a stream has yet to come to a mark, or through a gate: one that was just opened takes a moment. On a GPU that
 * has died none will. */
static int
is_awaited(const hp_cuda_device *device, const hp_cuda_sync_block *block)
{
    const struct timespec moment = {0, 100000};
    for (int i = 0; i < MOMENTS && marks_left(block); i++)
        nanosleep(&moment, NULL);
    if (!marks_left(block))
        return 0;
    hp_cu_result state = device->driver->stream_query(NULL);
    return state == HP_CU_SUCCESS || state == HP_CU_NOT_READY;
}

/*
 * The pages stay the GPU's, and so do the kernels that write and wait there. Few: only after an operation was given up.
 */
static void
keep(hp_cuda_device *device, hp_cuda_sync_block *block)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    hp_cuda_pages **at = &device->pages;
    while (*at && (*at)->host != block->words)
        at = &(*at)->next;
    if (*at) {
        hp_cuda_pages *pages = *at;
        *at = pages->next;
        free(pages);
    }
    block->module = device->module;
    device->module = NULL;
    pthread_mutex_lock(&mutex);
    block->next = kept;
    kept = block;
    pthread_mutex_unlock(&mutex);
}

void
hp_cuda_streams_free(hp_cuda_device *device)
{
    while (device->sync_blocks) {
        hp_cuda_sync_block *block = device->sync_blocks;
        device->sync_blocks = block->next;
        if (is_awaited(device, block)) {
            keep(device, block);
            continue;
        }
        hp_cuda_unpin(&device->base, block->words);
        hp_pages_free(block->words, BYTES);
        free(block);
    }
}
