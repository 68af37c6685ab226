/* SPDX-License-Identifier: MIT */
/*
 * join: bring-up. Settings and secret, meeting at the rendezvous server, listener, links to the neighbours, READY, GO;
 * and the chords that are dialled later, on first use.
 */
#ifndef HP_JOIN_H
#define HP_JOIN_H

#include "lib/comm.h"

/* The world: from settings alone. comm->config is resolved, comm->loop stands. Within bootstrap_timeout_ms. */
hoop_result hp_join_world(hoop_comm *comm, hoop_error *error);

/* A part of `parent`; comm->size is 0 afterwards when color was negative. */
hoop_result hp_join_split(hoop_comm *comm, hoop_comm *parent, int color, int key, hoop_error *error);

/* Lets in, or refuses, those who have come for this communicator (listener.h); baton holder only. */
void hp_join_receive(hoop_comm *comm);
hp_status hp_join_judge(hoop_comm *comm, const hp_hello *hello); /* which of the two */

/* Dials the links that the channel has made since it was last looked at. */
void hp_join_chords(hoop_comm *comm, hp_channel *channel);

/* Gives up whatever is still being dialled. */
void hp_join_cancel(hoop_comm *comm);
void hp_join_abandon(const hoop_comm *comm); /* in a forked child: closes its descriptors, touches nothing else */

#endif
