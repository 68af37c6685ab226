/* SPDX-License-Identifier: MIT */
/*
 * cuda_stream_sync: marks and gates are reused. A mark's word may be used again once the GPU has written it. A gate's
 * word only grows, and a stream waits for "at least", so an opened gate may be used again at once, even if the stream
 * has not yet read the word. A block's pages stay as long as any stream may still access them.
 */
#include "gpu/cuda_stream_sync.h"

#include "base/err.h"
#include "base/mem.h"
#include "gpu/cuda_context.h"
#include "gpu/cuda_launch.h"
#include "gpu/cuda_memtype.h"
#include "gpu/cuda_queue.h"

#include <stdlib.h>
#include <time.h>

enum { POLLS = 100, GATES = 4096, BYTES = GATES * (int)(sizeof(uint64_t) + sizeof(uint32_t)) };

struct hp_mark {
    hp_mark *next; /* in the device's list of free marks */
    hp_cuda_device *device;
    _Atomic uint64_t *word;
    hp_cu_pointer word_device; /* the word's address for the GPU */
    uint64_t target;           /* the value that a stream writes last */
};

struct hp_gate {
    hp_gate *next; /* in the device's list of free gates */
    hp_cuda_device *device;
    _Atomic uint32_t *word;
    hp_cu_pointer word_device;
    uint32_t target; /* the stream goes on when the word is at least this */
    int closed;      /* under the device's lock */
};

/* As many marks as gates. The pages hold the marks' words, then the gates' words. */
struct hp_cuda_sync_block {
    hp_cuda_sync_block *next;
    hp_cu_module module; /* of a kept block: the kernels that a stream may still run (see keep_block) */
    void *words;
    hp_mark marks[GATES];
    hp_gate gates[GATES];
};

/* --- blocks --- */

static hoop_result
pin_words(hp_cuda_device *device, hp_cuda_sync_block *block, hoop_error *error)
{
    block->words = hp_pages(BYTES);
    if (!block->words)
        return hp_err_set(error, HOOP_ERR_NO_MEMORY, "out of memory while holding a stream");
    hoop_result result = hp_cuda_pin(&device->base, block->words, BYTES, error);
    if (result != HOOP_SUCCESS)
        hp_pages_free(block->words, BYTES);
    return result;
}

static void
fill_block(hp_cuda_device *device, hp_cuda_sync_block *block)
{
    hp_cu_pointer marks = hp_cuda_page(device, block->words), gates = marks + GATES * sizeof(uint64_t);
    _Atomic uint64_t *mark_words = block->words;
    _Atomic uint32_t *gate_words = (void *)(mark_words + GATES);
    for (unsigned i = 0; i < GATES; i++) {
        hp_mark *next_mark = i + 1 < GATES ? &block->marks[i + 1] : NULL;
        hp_gate *next_gate = i + 1 < GATES ? &block->gates[i + 1] : NULL;
        block->marks[i] = (hp_mark){next_mark, device, &mark_words[i], marks + i * sizeof(uint64_t), 0};
        block->gates[i] = (hp_gate){next_gate, device, &gate_words[i], gates + i * sizeof(uint32_t), 0, 0};
    }
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
    hoop_result result = pin_words(device, block, error);
    if (result != HOOP_SUCCESS) {
        free(block);
        return result;
    }
    fill_block(device, block);
    add_block(device, block);
    return HOOP_SUCCESS;
}

/* --- streams that cannot be used --- */

/* A captured stream is replayed later, without hoop. The default stream (NULL) would wait for a captured one. */
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
is_written(const hp_mark *mark)
{
    return atomic_load_explicit(mark->word, memory_order_acquire) == mark->target;
}

/* A free mark, or NULL. A mark that was given back before its stream wrote it is not reused until the write is done. */
static hp_mark *
find_mark(hp_cuda_device *device)
{
    pthread_mutex_lock(&device->lock);
    hp_mark **at = &device->marks;
    while (*at && !is_written(*at))
        at = &(*at)->next;
    hp_mark *mark = *at;
    if (mark)
        *at = mark->next;
    pthread_mutex_unlock(&device->lock);
    return mark;
}

/* Making a block may wait for streams: a gate is appended only after the marks it needs have been taken. */
static hoop_result
take_mark(hp_cuda_device *device, hp_mark **mark, hoop_error *error)
{
    hoop_result result = HOOP_SUCCESS;
    while (result == HOOP_SUCCESS && !(*mark = find_mark(device)))
        result = hp_cuda_sync_block_new(device, error);
    return result;
}

static hoop_result
append_mark(hp_mark *mark, void *stream, hoop_error *error)
{
    hoop_result result =
        hp_cuda_write_value(mark->device, stream, mark->word_device, mark->target + 1,
                            "marking the caller's stream (does it belong to the GPU of the arrays?)", error);
    if (result == HOOP_SUCCESS)
        mark->target++;
    return result;
}

static hoop_result
mark_stream(hp_cuda_device *device, void *stream, hp_mark **out, hoop_error *error)
{
    hp_mark *mark = NULL;
    hoop_result result = check_capture(device, stream, error);
    if (result == HOOP_SUCCESS)
        result = take_mark(device, &mark, error);
    if (result != HOOP_SUCCESS)
        return result;
    result = append_mark(mark, stream, error);
    if (result == HOOP_SUCCESS)
        *out = mark;
    else
        hp_cuda_unmark(mark);
    return result;
}

hoop_result
hp_cuda_mark(hp_device *base, void *stream, hp_mark **mark, hoop_error *error)
{
    hp_cuda_device *device = hp_cuda_device_of(base);
    *mark = NULL;
    hp_cu_context before;
    hoop_result result = hp_cuda_enter(device, &before, error);
    if (result == HOOP_SUCCESS)
        result = mark_stream(device, stream, mark, error);
    hp_cuda_leave(device, before);
    return result;
}

int
hp_cuda_passed(hp_queue *queue, hp_mark *mark)
{
    int written = is_written(mark);
    if (!written)
        hp_cuda_check_health(queue);
    return written;
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

/* The stream goes on. */
static void
write_gate(const hp_gate *gate)
{
    atomic_store_explicit(gate->word, gate->target, memory_order_release);
}

/* A closed gate, or NULL. On a released device it is open at once. */
static hp_gate *
find_gate(hp_cuda_device *device)
{
    pthread_mutex_lock(&device->lock);
    hp_gate *gate = device->gates;
    if (gate) {
        device->gates = gate->next;
        gate->target = atomic_load_explicit(gate->word, memory_order_relaxed) + 1;
        gate->closed = 1;
        if (atomic_load_explicit(&device->released, memory_order_relaxed))
            write_gate(gate);
    }
    pthread_mutex_unlock(&device->lock);
    return gate;
}

static hoop_result
take_gate_and_mark(hp_cuda_device *device, hp_gate **gate, hp_mark **mark, hoop_error *error)
{
    hoop_result result = take_mark(device, mark, error);
    while (result == HOOP_SUCCESS && !(*gate = find_gate(device)))
        result = hp_cuda_sync_block_new(device, error);
    if (result != HOOP_SUCCESS && *mark)
        hp_cuda_unmark(*mark);
    return result;
}

/*
 * A second mark is appended behind the gate. Until it is written, the stream may still read the gate's word, so
 * hp_cuda_sync_blocks_free keeps the block in which such a mark is. The mark is given back at once: find_mark does not
 * reuse it before the stream has written it.
 */
static hoop_result
close_gate(hp_cuda_device *device, void *stream, hp_gate **out, hoop_error *error)
{
    hp_gate *gate = NULL;
    hp_mark *behind = NULL;
    hoop_result result = check_capture(device, stream, error);
    if (result == HOOP_SUCCESS)
        result = take_gate_and_mark(device, &gate, &behind, error);
    if (result != HOOP_SUCCESS)
        return result;
    result = hp_cuda_wait_value(device, stream, gate->word_device, gate->target, "holding the caller's stream", error);
    if (result == HOOP_SUCCESS)
        result = append_mark(behind, stream, error);
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
    hp_cuda_device *device = hp_cuda_device_of(base);
    *gate = NULL;
    hp_cu_context before;
    hoop_result result = hp_cuda_enter(device, &before, error);
    if (result == HOOP_SUCCESS)
        result = close_gate(device, stream, gate, error);
    hp_cuda_leave(device, before);
    return result;
}

void
hp_cuda_gate_open(hp_gate *gate)
{
    hp_cuda_device *device = gate->device;
    write_gate(gate);
    pthread_mutex_lock(&device->lock);
    gate->closed = 0;
    gate->next = device->gates;
    device->gates = gate;
    pthread_mutex_unlock(&device->lock);
}

void
hp_cuda_release(hp_device *base)
{
    hp_cuda_device *device = hp_cuda_device_of(base);
    pthread_mutex_lock(&device->lock);
    atomic_store_explicit(&device->released, 1, memory_order_release);
    for (hp_cuda_sync_block *block = device->sync_blocks; block; block = block->next) {
        for (int i = 0; i < GATES; i++) {
            if (block->gates[i].closed)
                write_gate(&block->gates[i]);
        }
    }
    pthread_mutex_unlock(&device->lock);
}

/* --- the device closes --- */

static int
has_unwritten_marks(const hp_cuda_sync_block *block)
{
    for (int i = 0; i < GATES; i++) {
        if (!is_written(&block->marks[i]))
            return 1;
    }
    return 0;
}

/*
 * Whether a stream may still access the block's pages: some mark, perhaps behind a gate, is not written. A stream whose
 * gate was opened just now gets 10 ms to pass it. On a GPU that has failed no stream runs any more.
 */
static int
is_in_use(const hp_cuda_device *device, const hp_cuda_sync_block *block)
{
    const struct timespec moment = {0, 100000};
    for (int i = 0; i < POLLS && has_unwritten_marks(block); i++)
        nanosleep(&moment, NULL);
    if (!has_unwritten_marks(block))
        return 0;
    hp_cu_result state = device->driver->stream_query(NULL);
    return state == HP_CU_SUCCESS || state == HP_CU_NOT_READY || state == HP_CU_CAPTURE_IMPLICIT;
}

/*
 * Keeps a block until the process ends: its pages stay pinned, and the module with the kernels that write and wait
 * there stays loaded. This happens only after an operation was given up while its stream was blocked by the caller.
 */
static void
keep_block(hp_cuda_device *device, hp_cuda_sync_block *block)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static hp_cuda_sync_block *kept; /* so that a leak checker finds them */
    hp_cuda_leave_pinned(device, block->words);
    block->module = device->module;
    device->module = NULL;
    pthread_mutex_lock(&mutex);
    block->next = kept;
    kept = block;
    pthread_mutex_unlock(&mutex);
}

void
hp_cuda_sync_blocks_free(hp_cuda_device *device)
{
    int in_use = 0; /* one is, so all may be: a gate and the mark behind it can be in two blocks */
    for (const hp_cuda_sync_block *block = device->sync_blocks; block && !in_use; block = block->next)
        in_use = is_in_use(device, block);
    while (device->sync_blocks) {
        hp_cuda_sync_block *block = device->sync_blocks;
        device->sync_blocks = block->next;
        if (in_use) {
            keep_block(device, block);
            continue;
        }
        hp_cuda_unpin(&device->base, block->words);
        hp_pages_free(block->words, BYTES);
        free(block);
    }
}
