/* SPDX-License-Identifier: MIT */
/*
 * registry: all communicators of this process, and what concerns every one of them. The process forks: a child that kept the
 * sockets would keep the connections up after its parent's death. A caller's stream is about to be blocked: until it goes
 * on, the GPU's driver may let no thread open a GPU or pin memory, so every communicator is prepared before (devices.c).
 */
#ifndef HP_REGISTRY_H
#define HP_REGISTRY_H

#include "lib/comm.h"

unsigned hp_forks(void); /* how often this process was born by fork since the library was first used */

void hp_registry_add(hoop_comm *comm);
void hp_registry_remove(hoop_comm *comm);

/*
 * Held while a communicator's GPU is prepared, and while a stream is counted as blocked. Taken before the mutex of a
 * driver, never after it.
 */
void hp_registry_lock(void);
void hp_registry_unlock(void);
hoop_comm *
hp_registry_first(void); /* under the lock; the following ones by next_registered; NULL: there is no communicator */

/* One more caller's stream that waits for an operation of this communicator (1), or one less (-1). */
void hp_registry_block(hoop_comm *comm, int change);
int hp_registry_blocked(void); /* 1 if any stream is blocked so */

#endif
