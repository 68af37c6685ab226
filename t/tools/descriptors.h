/* SPDX-License-Identifier: MIT */
/* descriptors: how many a process may open, and how many it has. */
#ifndef T_DESCRIPTORS_H
#define T_DESCRIPTORS_H

#include <sys/types.h>

/* Sets the soft limit alone, so that it can be raised again. Bails out if that fails. */
void allow_descriptors(unsigned n);

/* Open descriptors of a process; pid 0 means this one. -1 if they cannot be counted. */
int count_descriptors(pid_t pid);

/* How many of this process's are sockets. */
int count_sockets(void);

/*
 * Whether a socket of this process accepts connections at that port. A connect would not tell: the port may be another
 * program's by now, or the one that the system takes for the connect itself.
 */
int listens_at(int port);

/* For a child: closes descriptors 0 to 2. Later: whether all are closed still; then 1 is opened again, so that the child's
 * checks are printed. */
void close_low(void);
int low_is_closed(void);

#endif
