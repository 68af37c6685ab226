/* SPDX-License-Identifier: MIT */
/*
 * cuda_bounce: an operand in pageable host memory is copied piece by piece through pinned pages of the queue's own: into
 * them before the kernel, out of them after it. The CPU copies in a host function on the stream. hoop never asks the driver
 * to copy pageable memory: such a call may wait for the stream, and the stream may be waiting for hoop. Correct rather than
 * fast: commands on mixed memory are rare.
 */
#include "gpu/cuda_bounce.h"

#include "base/err.h"
#include "base/mem.h"
#include "gpu/cuda_launch.h"

#include <stdlib.h>
#include <string.h>

/* PIECE bytes of each operand at a time: of float32, and so of HP_SCALED, whole blocks */
enum { OPERANDS = 4, PIECE = 256 * 1024, BYTES = OPERANDS * PIECE };

/* One memcpy by a host function. */
typedef struct hp_cuda_host_copy {
    struct hp_cuda_host_copy *next;     /* in the free list */
    struct hp_cuda_host_copy *next_all; /* in the list of all, for hp_cuda_bounce_free */
    hp_cuda_bounce *bounce;
    void *to;
    const void *from;
    size_t bytes;
} hp_cuda_host_copy;

struct hp_cuda_bounce {
    char *pages;
    hp_cu_pointer device;
    pthread_mutex_t lock; /* for `unused`: host functions, on the driver's threads, add to it */
    hp_cuda_host_copy *unused, *all;
};

typedef struct hp_cuda_bounce_operand {
    hp_cuda_memtype memtype;
    char *memory;          /* the caller's address */
    hp_cu_pointer address; /* the GPU's, if it is HP_CUDA_MEM_DIRECT */
    hoop_dtype type;
    int output;
} hp_cuda_bounce_operand;

hoop_result
hp_cuda_bounce_new(hp_cuda_queue *queue)
{
    hp_cuda_bounce *bounce = hp_alloc(1, sizeof(*bounce));
    if (!bounce)
        return hp_err_set(&queue->status, HOOP_ERR_NO_MEMORY, "out of memory while making a GPU queue");
    pthread_mutex_init(&bounce->lock, NULL);
    queue->bounce = bounce;
    bounce->pages = hp_pages(BYTES);
    if (!bounce->pages)
        return hp_err_set(&queue->status, HOOP_ERR_NO_MEMORY, "out of memory while making a GPU queue");
    if (hp_cuda_pin(&queue->device->base, bounce->pages, BYTES, &queue->status) == HOOP_SUCCESS)
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
        hp_pages_free(bounce->pages, BYTES);
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

/* --- copies by the CPU --- */

static void
run_host_copy(void *arg)
{
    hp_cuda_host_copy *copy = arg;
    hp_cuda_bounce *bounce = copy->bounce;
    memcpy(copy->to, copy->from, copy->bytes);
    pthread_mutex_lock(&bounce->lock);
    copy->next = bounce->unused;
    bounce->unused = copy;
    pthread_mutex_unlock(&bounce->lock);
}

static hp_cuda_host_copy *
take_host_copy(hp_cuda_bounce *bounce)
{
    pthread_mutex_lock(&bounce->lock);
    hp_cuda_host_copy *copy = bounce->unused;
    if (copy)
        bounce->unused = copy->next;
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
keep_error(hp_cuda_queue *queue, hp_cu_result result, const char *call)
{
    return hp_cuda_keep_error(queue, result, call, "moving an array between host and GPU");
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
    return keep_error(queue, queue->device->driver->launch_host(queue->stream, run_host_copy, copy),
                      "cuLaunchHostFunc");
}

/* --- pieces --- */

/* A piece of operand `number`: into the bounce buffer if it is an input, out of it if it is an output. */
static hoop_result
copy_operand(hp_cuda_queue *queue, int number, const hp_cuda_bounce_operand *operand, size_t first, size_t count)
{
    char *memory = operand->memory + hp_dtype_bytes(operand->type, first);
    char *page = queue->bounce->pages + (size_t)number * PIECE;
    size_t bytes = hp_dtype_bytes(operand->type, count);
    return operand->output ? copy_by_host(queue, memory, page, bytes) : copy_by_host(queue, page, memory, bytes);
}

/* The inputs, or the outputs, that need the bounce buffer. */
static hoop_result
copy_operands(hp_cuda_queue *queue, const hp_cuda_bounce_operand operands[OPERANDS], int output, size_t first,
              size_t count)
{
    for (int i = 0; i < OPERANDS && queue->status.code == HOOP_SUCCESS; i++) {
        if (operands[i].memtype != HP_CUDA_MEM_DIRECT && operands[i].output == output)
            copy_operand(queue, i, &operands[i], first, count);
    }
    return queue->status.code;
}

static hoop_result
run_piece(hp_cuda_queue *queue, const hp_command *command, const hp_cuda_bounce_operand operands[OPERANDS],
          size_t first, size_t count)
{
    hp_command piece = *command;
    hp_cu_pointer address[OPERANDS];
    piece.count = count;
    for (int i = 0; i < OPERANDS; i++)
        address[i] = operands[i].memtype == HP_CUDA_MEM_DIRECT
                         ? operands[i].address + hp_dtype_bytes(operands[i].type, first)
                         : queue->bounce->device + (hp_cu_pointer)i * PIECE;
    if (copy_operands(queue, operands, 0, first, count) == HOOP_SUCCESS)
        hp_cuda_launch(queue, &piece, address);
    if (queue->status.code == HOOP_SUCCESS)
        copy_operands(queue, operands, 1, first, count);
    return queue->status.code;
}

hoop_result
hp_cuda_bounce_run(hp_cuda_queue *queue, const hp_command *command, const hp_cuda_memtype memtype[4],
                   const hp_cu_pointer address[4])
{
    const hp_operand *arrays[OPERANDS] = {&command->src[0], &command->src[1], &command->dst[0], &command->dst[1]};
    size_t elem = hp_dtype_size(command->elem), wire = hp_dtype_size(command->wire);
    hp_cuda_bounce_operand operands[OPERANDS];
    for (int i = 0; i < OPERANDS; i++)
        operands[i] = (hp_cuda_bounce_operand){.memtype = memtype[i],
                                               .memory = arrays[i]->ptr,
                                               .address = address[i],
                                               .type = arrays[i]->wire ? command->wire : command->elem,
                                               .output = i >= 2};
    size_t at_once = PIECE / (elem > wire ? elem : wire);
    for (size_t first = 0; first < command->count && hp_cuda_may_submit(queue) == HOOP_SUCCESS; first += at_once) {
        size_t left = command->count - first;
        run_piece(queue, command, operands, first, left < at_once ? left : at_once);
    }
    return queue->status.code;
}
