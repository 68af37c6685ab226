/* SPDX-License-Identifier: MIT */
/* ask: the other end of rendezvous/inquiry.h: finds the servers of this user on this machine, and asks them. */
#ifndef HP_TOP_ASK_H
#define HP_TOP_ASK_H

#include "base/buffer.h"

/*
 * Calls fn for the socket of every living server, and removes those that nobody has any more. The path is valid during
 * the call. Returns how many there are.
 */
int hp_top_servers(void (*fn)(void *arg, const char *path, int pid), void *arg);

/*
 * Asks one of them: `request` without its newline. The answer is added to out. It waits two seconds at most. 0, or -1
 * with errno.
 */
int hp_top_ask(const char *path, const char *request, hp_buffer *out);

/* The same over a socket that is connected, and stays the caller's. */
int hp_top_converse(int fd, const char *request, hp_buffer *out);

#endif
