/* SPDX-License-Identifier: MIT */
/*
 * links: the connections of a communicator's links are made here: candidates that dialled this rank are let in or
 * refused, and the links that the belts want are dialled: the neighbours' first, and chords at their first use, unless the
 * few ranks of one host have them from the start. Baton holder only.
 */
#ifndef HP_LINKS_H
#define HP_LINKS_H

#include "lib/comm.h"

/* Lets in, or refuses, the candidates that wait for this communicator (listener.h). */
void hp_links_receive(hoop_comm *comm);
hp_status hp_links_judge(hoop_comm *comm, const hp_hello *hello); /* which of the two */

/* Dials the links that the channel has made since the last call. */
void hp_links_dial(hoop_comm *comm, hp_channel *channel);

/* Dials the connections that broke, and are made again; whether those within a host are, or between hosts. */
void hp_links_repair(hoop_comm *comm, uint64_t now);
int hp_links_are_repaired(const hoop_comm *comm, int one_host);

/* Gives up those where something has closed each connection for so long: a process that has left the whole job does. */
void hp_links_give_up_closed(hoop_comm *comm, uint64_t now, uint64_t after);

/* Dials the links of messages. */
void hp_links_dial_messages(hoop_comm *comm);

/*
 * During bring-up: says once of a rank that has been dialled for `after` what there is at its address. Later a rank may
 * compute, and lets others wait.
 */
void hp_links_warn(hoop_comm *comm, uint64_t after, uint64_t now);

/* Gives up whatever is still being dialled. */
void hp_links_cancel(hoop_comm *comm);

#endif
