/* SPDX-License-Identifier: MIT */
/*
 * devices: a communicator's one device beside the host. It is opened at the first use; or prepared ahead of it, while
 * another communicator is about to block a stream (registry.h); or refused where it is too late for that. Messages are
 * copied between its memory and memory that links can use. Slices of long ones pass through rooms: pinned pages of
 * channel 0, apart for both directions, so that sends never keep a slice from coming. A copy is a command of channel
 * 0's queue; it waits for no stream.
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

/*
 * Sleeps until one of the channels' queues on this device has completed its commands, for so many milliseconds at most;
 * baton holder only.
 */
void hp_devices_await(hoop_comm *comm, int index, int ms);

/* A device that works on its own wakes a sleeping driver through its queues' descriptors; baton holder only. */
void hp_devices_watch(hoop_comm *comm, int index);

/* --- copies of messages: baton holder only --- */

/* A room whose last reader has ended; NULL: all are in use for now. It is free again with held = 0. */
hp_room *hp_devices_take(hoop_comm *comm, int sending);

/*
 * Copies bytes of a message of this call, either way. Returns the command's ticket; one that never ends if the GPU has
 * failed, which fault.c sees in the queue's status.
 */
uint64_t hp_devices_copy(hoop_comm *comm, const hp_call *call, void *to, const void *from, uint64_t bytes);

/* Whether the command with this ticket is complete; 0: there is none. */
int hp_devices_done(hoop_comm *comm, uint64_t ticket);

/* Whether no copy is on its way, also because the GPU has failed. */
int hp_devices_settled(hoop_comm *comm);

#endif
