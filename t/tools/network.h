/* SPDX-License-Identifier: MIT */
/* network: a network namespace for a test, in which nothing else sends or listens. */
#ifndef T_NETWORK_H
#define T_NETWORK_H

/*
 * Moves this process into a network of its own, with the loopback interface up, and with one more address on it unless
 * `address` is NULL. Without root rights the process gets a user namespace too, in which it is root. 0 where the system
 * permits neither; then *why says what to do about it. Call it before the first thread.
 */
int own_network(const char *address, const char **why);

#endif
