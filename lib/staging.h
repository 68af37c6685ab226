/* SPDX-License-Identifier: MIT */
/*
 * staging: copies of messages between a GPU's memory and memory that links can use. Slices of long messages pass through
 * rooms: pinned pages of channel 0, apart for both directions, so that sends never keep a slice from coming. A copy is a
 * command of channel 0's queue; it waits for no stream. Baton holder only.
 */
#ifndef HP_STAGING_H
#define HP_STAGING_H

#include "lib/comm.h"

/* Enough for the longest piece of a message. */
uint32_t hp_staging_room_bytes(const hoop_comm *comm);

/* A room whose last reader has ended; NULL: all are in use for now. It is free again with held = 0. */
hp_room *hp_staging_take(hoop_comm *comm, int sending);

/*
 * Copies bytes of a message of this call, either way. Returns the command's ticket; one that never ends if the GPU has
 * failed, which fault.c sees in the queue's status.
 */
uint64_t hp_staging_copy(hoop_comm *comm, const hp_call *call, void *to, const void *from, uint64_t bytes);

/* Whether the command with this ticket is complete; 0: there is none. */
int hp_staging_done(hoop_comm *comm, uint64_t ticket);

/* Whether no copy is on its way, also because the GPU has failed. */
int hp_staging_settled(hoop_comm *comm);

#endif
