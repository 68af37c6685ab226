/* SPDX-License-Identifier: MIT */
/*
 * limits: how many descriptors this process may open (RLIMIT_NOFILE). The usual soft limit of 1024 is for programs that
 * use select(2); hoop does not, and needs a descriptor for each connection.
 */
#ifndef HP_LIMITS_H
#define HP_LIMITS_H

#include <sys/resource.h>

/* The soft limit; INT_MAX where there is none, or where it cannot be read. */
int hp_limits_descriptors(void);

/* How many descriptors this process may still open, counted up to `most`. Opens none. */
int hp_limits_left(int most);

/*
 * Raises the soft limit to the hard one. Returns 1 if the limit is now another one: *before (may be NULL) is what it
 * was, for child processes that are to have it. Returns 0 if nothing was changed.
 */
int hp_limits_raise_descriptors(struct rlimit *before);

#endif
