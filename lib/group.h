/* SPDX-License-Identifier: MIT */
/* group: calls queued between hoop_group_start and its end; small allreduces of one dtype and op become one pass. */
#ifndef HP_GROUP_H
#define HP_GROUP_H

#include "lib/comm.h"

/* Whether the calling thread is inside a group of this communicator; and of any communicator. */
int hp_group_is_mine(const hoop_comm *comm);
int hp_group_any(void);

int hp_group_begin(hoop_comm *comm); /* 0: another thread has one open */

/* A checked call as a work, queued. The work's buffers are in its single segment. */
void hp_group_add(hoop_comm *comm, hoop_work *work);

/* An argument error inside: kept, the group will be dropped. */
void hp_group_spoil(hoop_comm *comm, const hoop_error *error);

/*
 * Closes the group: fuses, plans, and returns the list (linked by next) in *first and *last; NULL when the group was
 * empty or spoiled (the result says so). HOOP_ERR_NO_MEMORY drops the group too.
 */
hoop_result hp_group_close(hoop_comm *comm, hoop_work **first, hoop_work **last, hoop_error *error);

#endif
