/* SPDX-License-Identifier: MIT */
/* message_works: the works that consist of messages, from their start until they are complete. Baton holder only. */
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

#endif
