/* SPDX-License-Identifier: MIT */
/*
 * ring_names: the names that the ranks of a ring give their calls, each kept once, and which numbers each rank gives them.
 * Pure. It takes some kilobytes and 64 bytes a rank, whatever the ranks send.
 */
#ifndef HP_RING_NAMES_H
#define HP_RING_NAMES_H

#include "rendezvous/message.h"

typedef struct hp_ring_names hp_ring_names;

/*
 * Takes a CALL_NAME frame of this rank of `size`. *all is allocated at the first one, and the owner's to free; without
 * memory for it, or room in it, the frame is forgotten. The first name with a number stays. 0: the frame is malformed.
 */
int hp_ring_names_take(hp_ring_names **all, int size, int rank, const uint8_t *payload, size_t n);

/* Points a call of this rank to its name with this number, if there is one. `all` may be NULL, and must outlive the call. */
void hp_ring_names_fill(const hp_ring_names *all, int rank, int number, hp_call *call);

#endif
