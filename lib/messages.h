/* SPDX-License-Identifier: MIT */
/*
 * messages: moves messages between this rank and others, outside the belts. What to send and where to receive is
 * decided in pair.c; here frames are posted to links, and works complete. Each pair of ranks has a link of its own in
 * each direction that is used. Baton holder only.
 */
#ifndef HP_MESSAGES_H
#define HP_MESSAGES_H

#include "lib/comm.h"

/* Starts a work's messages in their order; after a fault it completes at once, with the kept error. */
void hp_messages_start(hoop_comm *comm, hoop_work *work);

/* Moves the messages of every peer once. 1 if anything moved. */
int hp_messages_move(hoop_comm *comm);

/* Before the driver sleeps. */
void hp_messages_arm(hoop_comm *comm);

/* The link on which a rank's messages come, or go to it (1), made if need be; NULL when memory runs out. */
hp_link *hp_messages_link(hoop_comm *comm, int rank, int sending);

/* The connection on which that rank's messages come was made again. */
void hp_messages_again(hoop_comm *comm, int rank);

/* Messages that have come and that nobody has received: how many, and the oldest's sender in *rank. */
uint64_t hp_messages_unread(const hoop_comm *comm, int *rank);

/* After a fault: moves nothing more, and tells the peers; then completes all works with the kept error. */
void hp_messages_stop(hoop_comm *comm, const hoop_error *cause);
void hp_messages_fail(hoop_comm *comm);

void hp_messages_free(hoop_comm *comm);

#endif
