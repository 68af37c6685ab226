/* SPDX-License-Identifier: MIT */
/*
 * devices: a communicator's one device beside the host: opened at the first use; or prepared ahead of it, while another
 * communicator is about to block a stream (registry.h); or refused where it is too late for that.
 */
#ifndef HP_DEVICES_H
#define HP_DEVICES_H

#include "lib/comm.h"

/*
 * The device of a call's arrays, opened if it is not yet: the host's where neither is a GPU's. Index for
 * hoop_work.device, or -1 with the error filled.
 */
int hp_devices_of(hoop_comm *comm, const void *send, const void *recv, hoop_error *error);

/* For a call that has a stream but no memory: the device index of streams, or -1 with the error filled. */
int hp_devices_of_stream(hoop_comm *comm, hoop_error *error);

/*
 * Before a caller's stream is blocked for an operation between two arrays: all other communicators that have not used
 * their GPU yet get the GPU of these arrays prepared, and the stream is counted as blocked. Any thread.
 */
void hp_devices_block(hoop_comm *comm, const void *send, const void *recv);

/* Opens the channels' queues on a device, unless they are open; baton holder only. An error ends the communicator. */
hoop_result hp_devices_pin(hoop_comm *comm, int index, hoop_error *error);

/* A device that works on its own wakes a sleeping driver through its queues' descriptors; baton holder only. */
void hp_devices_watch(hoop_comm *comm, int index);

#endif
