/* SPDX-License-Identifier: MIT */
/*
 * proctree: the descendants of a process, found in /proc. An agent adopts the orphans of its ranks
 * (PR_SET_CHILD_SUBREAPER), so all that a rank has started is among the agent's descendants and can be ended.
 */
#ifndef HP_LAUNCH_PROCTREE_H
#define HP_LAUNCH_PROCTREE_H

#include <sys/types.h>

/* Sends `signal` (0: none) to every living descendant of `ancestor`; returns how many there are. */
int hp_proctree_signal(pid_t ancestor, int signal);

/*
 * Kills `root` and every living descendant. All are stopped first: a process that runs could start another between the
 * look at /proc and the signal, and that one would outlive its parent.
 */
void hp_proctree_end(pid_t root);

#endif
