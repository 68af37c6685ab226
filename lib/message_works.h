/* SPDX-License-Identifier: MIT */
/*
 * message_works: the works that consist of messages, from their call until they are complete. A message that was called
 * is held while a caller's stream is on its way to it. Those that are held start in any order, but those with the same
 * peer, or any, direction and tag in the order of their calls. Baton holder only.
 */
#ifndef HP_MESSAGE_WORKS_H
#define HP_MESSAGE_WORKS_H

#include "lib/comm.h"

/* A work with messages, of which none has started. */
void hp_message_works_add(hoop_comm *comm, hoop_work *work);

/* A message of a work is complete; the last one completes the work. */
void hp_message_works_finish(hp_peer *peer, hp_message *message);

/* Completes groups whose messages are complete, and whose collectives are by now. 1 if there was one. */
int hp_message_works_join(hoop_comm *comm);

/* Completes all with the communicator's error. */
void hp_message_works_fail(hoop_comm *comm);

/* Moves those that may start now to the end of `ready`. What is left waits for a stream. */
void hp_held_release(hoop_comm *comm, hp_message_queue *ready);

#endif
