/* SPDX-License-Identifier: MIT */
/*
 * registry: all communicators of this process, and what concerns every one of them. The process forks: a child that
 * kept the sockets would keep the connections up after its parent's death. A caller's stream is about to be blocked:
 * until it goes on, the GPU's driver may let no thread open a GPU or pin memory, so every communicator is prepared
 * before (devices.c).
 */
#ifndef HP_REGISTRY_H
#define HP_REGISTRY_H

#include "lib/comm.h"

extern atomic_uint hp_registry_forks; /* use hp_forks() */

/* How many forks lie between this process and the one that made the first communicator. */
static inline unsigned
hp_forks(void)
{
    return atomic_load_explicit(&hp_registry_forks, memory_order_relaxed);
}

/* The same, before a communicator is made: forks are counted from the first time on. */
unsigned hp_registry_watch_forks(void);

void hp_registry_add(hoop_comm *comm);
void hp_registry_remove(hoop_comm *comm);

/*
 * Held while a communicator's GPU is prepared, and while a stream is counted as blocked. Taken before the mutex of a
 * driver, never after it.
 */
void hp_registry_lock(void);
int hp_registry_try(void); /* 0: another thread has it */
void hp_registry_unlock(void);
int hp_registry_has_several(void); /* communicators; without the lock */
hoop_comm *
hp_registry_first(void); /* under the lock; the following ones by next_registered; NULL: there is no communicator */

/* One more caller's stream that waits for an operation of this communicator (1), or one less (-1). */
void hp_registry_block(hoop_comm *comm, int change);
int hp_registry_blocked(void); /* 1 if any stream is blocked so */

#endif
