/* SPDX-License-Identifier: MIT */
/* cuda_queue: a queue of commands on a GPU. The functions of hp_device_ops, and what the streams' marks need. */
#ifndef HP_CUDA_QUEUE_H
#define HP_CUDA_QUEUE_H

#include "gpu/cuda_internal.h"

hoop_result hp_cuda_queue_open(hp_device *device, hp_queue **queue, hoop_error *error);
void hp_cuda_queue_close(hp_queue *queue);
uint64_t hp_cuda_submit(hp_queue *queue, const hp_command *command);
uint64_t hp_cuda_done(hp_queue *queue);
int hp_cuda_wake_fd(hp_queue *queue);
void hp_cuda_wake_arm(hp_queue *queue);
hoop_result hp_cuda_drain(hp_queue *queue);
hoop_result hp_cuda_status(hp_queue *queue, hoop_error *error);

/*
 * Asks the driver, every 5 ms at most, whether the queue's stream has failed, and keeps the error: a kernel that fails
 * writes no ticket, and a stream of a context that has failed writes no mark.
 */
void hp_cuda_check_health(hp_queue *queue);

#endif
