/* SPDX-License-Identifier: MIT */
/*
 * cuda_bounce: commands on memory the GPU cannot reach: ordinary host memory, or another GPU's. Such an operand travels
 * through pages of the queue's own, piece by piece: into them before the kernel, out of them after it. The CPU's part
 * is a host function on the stream, never a copy by the driver from unpinned memory, which may wait for the stream: the
 * stream may be waiting for us. Right before fast: pairs of mixed memory are rare.
 */
#include "base/err.h"
#include "base/mem.h"
#include "gpu/cuda_internal.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 256 * 1024, LANES = 4 }; /* bytes of an operand at a time; one lane an operand */

/* One memcpy on the stream. */
typedef struct hp_cuda_host_copy {
    struct hp_cuda_host_copy *next;     /* in the pool */
    struct hp_cuda_host_copy *next_all; /* for the end */
    hp_cuda_bounce *bounce;
    void *to;
    const void *from;
    size_t bytes;
} hp_cuda_host_copy;

struct hp_cuda_bounce {
    char *pages;
    hp_cu_pointer device;
    pthread_mutex_t lock; /* host functions give copys back */
    hp_cuda_host_copy *pool, *all;
};

typedef struct hp_cuda_bounce_lane {
    hp_cuda_memtype memtype;
    char *memory;          /* the operand, as the caller names it */
    hp_cu_pointer address; /* as the kernel gets it */
    size_t element;
    int output;
} hp_cuda_bounce_lane;

static hoop_result
fail(hp_cuda_queue *queue, hp_cu_result result, const char *call)
{
    if (result == HP_CU_SUCCESS || queue->status.code != HOOP_SUCCESS)
        return queue->status.code;
    return hp_cuda_check(&queue->status, result, call, "moving an array between host and GPU");
}

static void
run_host_copy(void *arg)
{
    hp_cuda_host_copy *copy = arg;
    hp_cuda_bounce *bounce = copy->bounce;
    memcpy(copy->to, copy->from, copy->bytes);
    pthread_mutex_lock(&bounce->lock);
    copy->next = bounce->pool;
    bounce->pool = copy;
    pthread_mutex_unlock(&bounce->lock);
}

static hp_cuda_host_copy *
take_host_copy(hp_cuda_bounce *bounce)
{
    pthread_mutex_lock(&bounce->lock);
    hp_cuda_host_copy *copy = bounce->pool;
    if (copy)
        bounce->pool = copy->next;
    pthread_mutex_unlock(&bounce->lock);
    if (copy)
        return copy;
    copy = hp_alloc(1, sizeof(*copy));
    if (copy) {
        copy->bounce = bounce;
        copy->next_all = bounce->all;
        bounce->all = copy;
    }
    return copy;
}

static hoop_result
copy_by_host(hp_cuda_queue *queue, void *to, const void *from, size_t bytes)
{
    hp_cuda_host_copy *copy = take_host_copy(queue->bounce);
    if (!copy)
        return hp_err_set(&queue->status, HOOP_ERR_NO_MEMORY, "out of memory while submitting a GPU command");
    copy->to = to;
    copy->from = from;
    copy->bytes = bytes;
    return fail(queue, queue->device->driver->launch_host(queue->stream, run_host_copy, copy), "cuLaunchHostFunc");
}

hoop_result
hp_cuda_bounce_new(hp_cuda_queue *queue)
{
    hp_cuda_bounce *bounce = hp_alloc(1, sizeof(*bounce));
    if (!bounce)
        return hp_err_set(&queue->status, HOOP_ERR_NO_MEMORY, "out of memory while making a GPU queue");
    pthread_mutex_init(&bounce->lock, NULL);
    queue->bounce = bounce;
    bounce->pages = hp_pages((size_t)PIECE * LANES);
    if (!bounce->pages)
        return hp_err_set(&queue->status, HOOP_ERR_NO_MEMORY, "out of memory while making a GPU queue");
    if (hp_cuda_pin(&queue->device->base, bounce->pages, (size_t)PIECE * LANES, &queue->status) == HOOP_SUCCESS)
        bounce->device = hp_cuda_page(queue->device, bounce->pages);
    return queue->status.code;
}

void
hp_cuda_bounce_free(hp_cuda_queue *queue)
{
    hp_cuda_bounce *bounce = queue->bounce;
    if (!bounce)
        return;
    if (bounce->pages) {
        hp_cuda_unpin(&queue->device->base, bounce->pages);
        hp_pages_free(bounce->pages, (size_t)PIECE * LANES);
    }
    while (bounce->all) {
        hp_cuda_host_copy *copy = bounce->all;
        bounce->all = copy->next_all;
        free(copy);
    }
    pthread_mutex_destroy(&bounce->lock);
    free(bounce);
    queue->bounce = NULL;
}

/* One lane's bytes into the stage (before the kernel) or out of it (after). */
static hoop_result
carry(hp_cuda_queue *queue, int number, const hp_cuda_bounce_lane *lane, size_t first, size_t count)
{
    hp_cuda_bounce *bounce = queue->bounce;
    char *memory = lane->memory + first * lane->element;
    char *staged = bounce->pages + (size_t)number * PIECE;
    size_t bytes = count * lane->element;
    if (lane->memtype == HP_CUDA_MEM_PAGEABLE)
        return lane->output ? copy_by_host(queue, memory, staged, bytes) : copy_by_host(queue, staged, memory, bytes);
    hp_cu_pointer foreign = (hp_cu_pointer)(uintptr_t)memory;
    hp_cu_pointer ours = bounce->device + (hp_cu_pointer)number * PIECE;
    return fail(queue,
                queue->device->driver->copy_async(lane->output ? foreign : ours, lane->output ? ours : foreign, bytes,
                                                  queue->stream),
                "cuMemcpyAsync");
}

static hoop_result
carry_all(hp_cuda_queue *queue, const hp_cuda_bounce_lane lanes[LANES], int output, size_t first, size_t count)
{
    for (int i = 0; i < LANES && queue->status.code == HOOP_SUCCESS; i++) {
        if (lanes[i].memtype != HP_CUDA_MEM_DIRECT && lanes[i].output == output)
            carry(queue, i, &lanes[i], first, count);
    }
    return queue->status.code;
}

static hoop_result
run_piece(hp_cuda_queue *queue, const hp_command *command, const hp_cuda_bounce_lane lanes[LANES], size_t first,
          size_t count)
{
    hp_command piece = *command;
    hp_cu_pointer address[LANES];
    piece.count = count;
    for (int i = 0; i < LANES; i++)
        address[i] = lanes[i].memtype == HP_CUDA_MEM_DIRECT ? lanes[i].address + first * lanes[i].element
                                                            : queue->bounce->device + (hp_cu_pointer)i * PIECE;
    if (carry_all(queue, lanes, 0, first, count) == HOOP_SUCCESS)
        hp_cuda_launch(queue, &piece, address);
    if (queue->status.code == HOOP_SUCCESS)
        carry_all(queue, lanes, 1, first, count);
    return queue->status.code;
}

hoop_result
hp_cuda_bounce_run(hp_cuda_queue *queue, const hp_command *command, const hp_cuda_memtype memtype[4],
                   const hp_cu_pointer address[4])
{
    const hp_operand *operands[LANES] = {&command->src[0], &command->src[1], &command->dst[0], &command->dst[1]};
    size_t elem = hp_dtype_size(command->elem), wire = hp_dtype_size(command->wire);
    size_t at_once = PIECE / (elem > wire ? elem : wire);
    hp_cuda_bounce_lane lanes[LANES];
    for (int i = 0; i < LANES; i++)
        lanes[i] = (hp_cuda_bounce_lane){.memtype = memtype[i],
                                         .memory = operands[i]->ptr,
                                         .address = address[i],
                                         .element = operands[i]->wire ? wire : elem,
                                         .output = i >= 2};
    for (size_t first = 0; first < command->count && hp_cuda_may_submit(queue) == HOOP_SUCCESS; first += at_once) {
        size_t left = command->count - first;
        run_piece(queue, command, lanes, first, left < at_once ? left : at_once);
    }
    return queue->status.code;
}
