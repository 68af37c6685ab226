/* SPDX-License-Identifier: MIT */
/*
 * slot: one step in a channel's window: where its bytes lie, now as addresses, and the commands that its place asks
 * for. The belt decides when (channel.c).
 */
#ifndef HP_SLOT_H
#define HP_SLOT_H

#include "lib/belt.h"

/*
 * The address of a spot; lowers *run to the elements from there that are contiguous, in the user's arrays. A slot's
 * memory is taken at the first use. NULL: nowhere.
 */
uint8_t *hp_slot_address(hp_channel *channel, hp_slot *slot, hp_spot spot, uint64_t *run);

/* Its memory is free for others. */
void hp_slot_free(hp_channel *channel, hp_slot *slot);

/* The queue of the device that its operation is for. */
hp_queue *hp_slot_queue(const hp_channel *channel, const hp_slot *slot);

/*
 * Submits the step's commands; slot->command_mark is the last one. One that is refused fails the slot, and is the
 * channel's command_error.
 */
void hp_slot_work(hp_channel *channel, hp_slot *slot);

#endif
