/* SPDX-License-Identifier: MIT */
/*
 * kin: a process's descendants, found in /proc. An agent adopts its ranks' orphans (PR_SET_CHILD_SUBREAPER), so
 * whatever a rank has started and left is among its kin and can be ended.
 */
#ifndef HP_LAUNCH_PROCTREE_H
#define HP_LAUNCH_PROCTREE_H

#include <sys/types.h>

/* Sends `signal` (0: none) to every living descendant of `ancestor`; returns how many there are. */
int hp_proctree_signal(pid_t ancestor, int signal);

#endif
