/* SPDX-License-Identifier: MIT */
/*
 * registry: all communicators of this process. Two events concern every one of them, whatever it is about: the process
 * forks, and a child that kept the sockets would keep the connections up after its parent's death; and a caller's stream
 * is about to be stopped. While it stands, a driver may let nobody open a GPU or pin memory, so that the first use of the
 * GPU by another communicator would wait for this one, which needs the driver too: so all are prepared before.
 */
#ifndef HP_REGISTRY_H
#define HP_REGISTRY_H

#include "lib/comm.h"

unsigned hp_forks(void); /* how often this process was born by fork since the library was first used */

void hp_registry_add(hoop_comm *comm);
void hp_registry_remove(hoop_comm *comm);

/* Held while a communicator's GPU is prepared, and while a stream is counted as one that stands. Before the mutex of a
 * driver. */
void hp_registry_lock(void);
void hp_registry_unlock(void);

/*
 * Under the lock, before a stream is stopped for an operation between two arrays: prepares for their GPU all other
 * communicators that have not used one yet. Does nothing while a stream stands: it would be too late.
 */
void hp_registry_prepare(const hoop_comm *but, const void *send, const void *recv);

void hp_registry_stopped(int change); /* one stream more that stands, or one less */
int hp_registry_stands(void);         /* 1 if any does */

#endif
