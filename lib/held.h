/* SPDX-License-Identifier: MIT */
/*
 * held: messages that were called and have not started, because a caller's stream is on its way to them. They start in
 * any order, but those with the same peer, or any, direction and tag in the order of their calls. Baton holder only.
 */
#ifndef HP_HELD_H
#define HP_HELD_H

#include "lib/comm.h"

void hp_held_add(hoop_comm *comm, hp_message *message);

/* Moves those that may start now to the end of `ready`. What is left waits for a stream. */
void hp_held_release(hoop_comm *comm, hp_message_queue *ready);

/* Whether the driver has to look at callers' streams again soon: no descriptor announces that they have come. */
int hp_held_await_stream(const hoop_comm *comm);

#endif
