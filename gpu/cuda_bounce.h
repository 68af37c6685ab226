/* SPDX-License-Identifier: MIT */
/* cuda_bounce: a queue's bounce buffer, for commands on memory that the GPU's kernels cannot address. */
#ifndef HP_CUDA_BOUNCE_H
#define HP_CUDA_BOUNCE_H

#include "gpu/cuda_internal.h"
#include "gpu/cuda_memtype.h"

/* Makes queue->bounce; the error is the queue's status. */
hoop_result hp_cuda_bounce_new(hp_cuda_queue *queue);
void hp_cuda_bounce_free(hp_cuda_queue *queue);

/* Runs a command of which some operands are not HP_CUDA_MEM_DIRECT: src[0], src[1], dst[0], dst[1]. */
hoop_result hp_cuda_bounce_run(hp_cuda_queue *queue, const hp_command *command, const hp_cuda_memtype memtype[4],
                               const hp_cu_pointer address[4]);

#endif
