/* SPDX-License-Identifier: MIT */
/*
 * overdue: waits that last longer than they may. While the server answers it judges which rank is late; otherwise this rank
 * does, by the others' heartbeats, so that every call ends.
 */
#ifndef HP_OVERDUE_H
#define HP_OVERDUE_H

#include "lib/comm.h"

/* Ends the communicator if the wait of this rank is overdue. After hp_fault_check; baton holder only. */
void hp_overdue_check(hoop_comm *comm, uint64_t now);

#endif
