/* SPDX-License-Identifier: MIT */
/*
 * cuda_stream_sync: keeps an operation in the order of a caller's stream, both ways. The words, in CUDA's terms:
 *
 *     mark    cuStreamWriteValue64 appended to the stream: when the stream has run everything before the mark, the GPU
 *             writes the mark's target into a word of pinned host memory. It does what cuEventRecord does.
 *     passed  the host has read that word. It does what cuEventQuery does, but costs a load and calls no driver.
 *     gate    cuStreamWaitValue32 appended to the stream: the stream runs nothing behind the gate until the host writes
 *             the gate's target into another such word (gate_open). CUDA has no event that the host records, and a host
 *             function that blocks would also block all other host functions of the process.
 *
 * A stream with an operation of hoop's thus holds: the caller's work, a mark, a gate, the caller's later work. hoop
 * submits the operation's commands, to queues of its own, after the mark is passed, and opens the gate when they are
 * complete. A GPU without stream memory operations runs kernels of one thread in their place (cuda_launch.h).
 *
 * `passed`, gate_open and release call no driver in order to go on: they work from any thread, after any error, and
 * while other threads are blocked in the driver.
 */
#ifndef HP_CUDA_STREAM_SYNC_H
#define HP_CUDA_STREAM_SYNC_H

#include "gpu/cuda_internal.h"

/* Functions of hp_device_ops. */
hoop_result hp_cuda_mark(hp_device *device, void *stream, hp_mark **mark, hoop_error *error);
int hp_cuda_passed(hp_queue *queue, hp_mark *mark);
void hp_cuda_unmark(hp_mark *mark);
hoop_result hp_cuda_gate_close(hp_device *device, void *stream, hp_gate **gate, hoop_error *error);
void hp_cuda_gate_open(hp_gate *gate);
void hp_cuda_release(hp_device *device);

/*
 * A block of marks and gates, thousands of each, for a device that opens; more are made when all are in use. Pinning a
 * block may wait for all streams, so the first is made before any stream can be blocked.
 */
hoop_result hp_cuda_sync_block_new(hp_cuda_device *device, hoop_error *error);

/* When the device closes. */
void hp_cuda_sync_blocks_free(hp_cuda_device *device);

#endif
