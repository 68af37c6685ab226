/* SPDX-License-Identifier: MIT */
/*
 * message_waits: how long this rank's messages have waited, and for which rank. A message gets on if bytes of any
 * message move between the two ranks, or if this rank's collectives do. Baton holder only.
 */
#ifndef HP_MESSAGE_WAITS_H
#define HP_MESSAGE_WAITS_H

#include "lib/comm.h"

/* Between two rounds: notes what got on, and warns the user of what did not for warn_after_ms. */
void hp_message_waits_poll(hoop_comm *comm, uint64_t now);

/* A message that has waited for op_timeout_ms: 1 with the error filled. */
int hp_message_waits_are_over(hoop_comm *comm, uint64_t now, hoop_error *error);

/*
 * This rank leaves, and all that is left are receives that no rank has matched: 1 with the error filled. Another
 * operation may be what makes another rank send, and a message that has begun comes.
 */
int hp_message_waits_unmatched(const hoop_comm *comm, uint64_t now, hoop_error *error);

/* Pure: whether all messages of these works that are not complete are such receives, and there is one. */
int hp_message_waits_only_unmatched(const hoop_work *running);

/* What the oldest message that is not complete waits for, and the rank, or -1. HP_WAIT_NONE: there is none. */
hp_awaited hp_message_waits_oldest(const hoop_comm *comm);

/* For the server: the message that has waited longest, and what for; call.kind 0: none waits for a rank or the GPU. */
hp_waiting hp_message_waits_find(const hoop_comm *comm, uint64_t now);

/* Copies the first message of the work that is not complete. 0: there is none; 1: all others are with its peer, too; 2: not. */
int hp_message_waits_of(const hoop_work *work, hp_message *first);

/* The link that has ended, while a message needs it that is not complete; NULL: there is none. */
hp_link *hp_message_waits_lost(const hoop_comm *comm, const hp_peer *peer);

/* "rank 2 (a) waits in recv of 5 x int8 (tag 3) from rank 5 (b)": the oldest message with this peer. Returns out. */
const char *hp_message_waits_print(const hoop_comm *comm, const hp_peer *peer, char *out, size_t size);

#endif
