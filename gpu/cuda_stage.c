/* SPDX-License-Identifier: MIT */
/*
 * cuda_stage: jobs on memory the GPU cannot reach: ordinary host memory, or another GPU's. Such an operand travels
 * through pages of the queue's own, piece by piece: into them before the kernel, out of them after it. The CPU's part
 * is a host function on the stream, never a copy by the driver from unpinned memory, which may wait for the stream: the
 * stream may be waiting for us. Right before fast: pairs of mixed memory are rare.
 */
#include "base/err.h"
#include "base/mem.h"
#include "gpu/cuda_room.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 256 * 1024, LANES = 4 }; /* bytes of an operand at a time; one lane an operand */

/* One memcpy on the stream. */
typedef struct hp_cuda_errand {
    struct hp_cuda_errand *next;     /* in the pool */
    struct hp_cuda_errand *next_all; /* for the end */
    hp_cuda_stage *stage;
    void *to;
    const void *from;
    size_t bytes;
} hp_cuda_errand;

struct hp_cuda_stage {
    char *pages;
    hp_cu_pointer device;
    pthread_mutex_t lock; /* host functions give errands back */
    hp_cuda_errand *pool, *all;
};

typedef struct hp_cuda_lane {
    hp_cuda_reach reach;
    char *memory;          /* the operand, as the caller names it */
    hp_cu_pointer address; /* as the kernel gets it */
    size_t element;
    int output;
} hp_cuda_lane;

static hoop_result
fail(hp_cuda_queue *queue, hp_cu_result result, const char *call)
{
    if (result == HP_CU_SUCCESS || queue->status.code != HOOP_SUCCESS)
        return queue->status.code;
    return hp_cuda_check(&queue->status, result, call, "moving an array between host and GPU");
}

static void
run_errand(void *arg)
{
    hp_cuda_errand *errand = arg;
    hp_cuda_stage *stage = errand->stage;
    memcpy(errand->to, errand->from, errand->bytes);
    pthread_mutex_lock(&stage->lock);
    errand->next = stage->pool;
    stage->pool = errand;
    pthread_mutex_unlock(&stage->lock);
}

static hp_cuda_errand *
take_errand(hp_cuda_stage *stage)
{
    pthread_mutex_lock(&stage->lock);
    hp_cuda_errand *errand = stage->pool;
    if (errand)
        stage->pool = errand->next;
    pthread_mutex_unlock(&stage->lock);
    if (errand)
        return errand;
    errand = hp_alloc(1, sizeof(*errand));
    if (errand) {
        errand->stage = stage;
        errand->next_all = stage->all;
        stage->all = errand;
    }
    return errand;
}

static hoop_result
copy_by_host(hp_cuda_queue *queue, void *to, const void *from, size_t bytes)
{
    hp_cuda_errand *errand = take_errand(queue->stage);
    if (!errand)
        return hp_err_set(&queue->status, HOOP_ERR_NO_MEMORY, "out of memory while submitting a GPU job");
    errand->to = to;
    errand->from = from;
    errand->bytes = bytes;
    return fail(queue, queue->device->driver->launch_host(queue->stream, run_errand, errand), "cuLaunchHostFunc");
}

hoop_result
hp_cuda_stage_new(hp_cuda_queue *queue)
{
    hp_cuda_stage *stage = hp_alloc(1, sizeof(*stage));
    if (!stage)
        return hp_err_set(&queue->status, HOOP_ERR_NO_MEMORY, "out of memory while making a GPU queue");
    pthread_mutex_init(&stage->lock, NULL);
    queue->stage = stage;
    stage->pages = hp_pages((size_t)PIECE * LANES);
    if (!stage->pages)
        return hp_err_set(&queue->status, HOOP_ERR_NO_MEMORY, "out of memory while making a GPU queue");
    if (hp_cuda_pin(&queue->device->base, stage->pages, (size_t)PIECE * LANES, &queue->status) == HOOP_SUCCESS)
        stage->device = hp_cuda_page(queue->device, stage->pages);
    return queue->status.code;
}

void
hp_cuda_stage_free(hp_cuda_queue *queue)
{
    hp_cuda_stage *stage = queue->stage;
    if (!stage)
        return;
    if (stage->pages) {
        hp_cuda_unpin(&queue->device->base, stage->pages);
        hp_pages_free(stage->pages, (size_t)PIECE * LANES);
    }
    while (stage->all) {
        hp_cuda_errand *errand = stage->all;
        stage->all = errand->next_all;
        free(errand);
    }
    pthread_mutex_destroy(&stage->lock);
    free(stage);
    queue->stage = NULL;
}

/* One lane's bytes into the stage (before the kernel) or out of it (after). */
static hoop_result
carry(hp_cuda_queue *queue, int number, const hp_cuda_lane *lane, size_t first, size_t count)
{
    hp_cuda_stage *stage = queue->stage;
    char *memory = lane->memory + first * lane->element;
    char *staged = stage->pages + (size_t)number * PIECE;
    size_t bytes = count * lane->element;
    if (lane->reach == HP_CUDA_PLAIN)
        return lane->output ? copy_by_host(queue, memory, staged, bytes) : copy_by_host(queue, staged, memory, bytes);
    hp_cu_pointer foreign = (hp_cu_pointer)(uintptr_t)memory;
    hp_cu_pointer ours = stage->device + (hp_cu_pointer)number * PIECE;
    return fail(queue,
                queue->device->driver->copy_async(lane->output ? foreign : ours, lane->output ? ours : foreign, bytes,
                                                  queue->stream),
                "cuMemcpyAsync");
}

static hoop_result
carry_all(hp_cuda_queue *queue, const hp_cuda_lane lanes[LANES], int output, size_t first, size_t count)
{
    for (int i = 0; i < LANES && queue->status.code == HOOP_SUCCESS; i++) {
        if (lanes[i].reach != HP_CUDA_DIRECT && lanes[i].output == output)
            carry(queue, i, &lanes[i], first, count);
    }
    return queue->status.code;
}

static hoop_result
run_piece(hp_cuda_queue *queue, const hp_job *job, const hp_cuda_lane lanes[LANES], size_t first, size_t count)
{
    hp_job piece = *job;
    hp_cu_pointer address[LANES];
    piece.count = count;
    for (int i = 0; i < LANES; i++)
        address[i] = lanes[i].reach == HP_CUDA_DIRECT ? lanes[i].address + first * lanes[i].element
                                                      : queue->stage->device + (hp_cu_pointer)i * PIECE;
    if (carry_all(queue, lanes, 0, first, count) == HOOP_SUCCESS)
        hp_cuda_launch(queue, &piece, address);
    if (queue->status.code == HOOP_SUCCESS)
        carry_all(queue, lanes, 1, first, count);
    return queue->status.code;
}

hoop_result
hp_cuda_staged(hp_cuda_queue *queue, const hp_job *job, const hp_cuda_reach reach[4], const hp_cu_pointer address[4])
{
    const hp_operand *operands[LANES] = {&job->src[0], &job->src[1], &job->dst[0], &job->dst[1]};
    size_t elem = hp_dtype_size(job->elem), wire = hp_dtype_size(job->wire);
    size_t at_once = PIECE / (elem > wire ? elem : wire);
    hp_cuda_lane lanes[LANES];
    for (int i = 0; i < LANES; i++)
        lanes[i] = (hp_cuda_lane){.reach = reach[i],
                                  .memory = operands[i]->ptr,
                                  .address = address[i],
                                  .element = operands[i]->wire ? wire : elem,
                                  .output = i >= 2};
    for (size_t first = 0; first < job->count && hp_cuda_may_submit(queue) == HOOP_SUCCESS; first += at_once) {
        size_t left = job->count - first;
        run_piece(queue, job, lanes, first, left < at_once ? left : at_once);
    }
    return queue->status.code;
}
