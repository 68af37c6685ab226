/* SPDX-License-Identifier: MIT */
/*
 * socket: makes and closes the sockets of this library, and knows which descriptors they are: a forked child closes them
 * all, because one that kept them would keep the connections up after its parent's death. To a fork, making a socket
 * and noting it are one step, in whatever state the structures are that use it.
 */
#ifndef HP_SOCKET_H
#define HP_SOCKET_H

#include <sys/socket.h>

/* Close-on-exec, descriptor >= 3; -1 with errno. */
int hp_socket_new(int family, int type, int protocol);
int hp_socket_accept(int listener, struct sockaddr *peer, socklen_t *length); /* non-blocking */
/* Memory as a file that can be sealed (memfd_create): it is known here, too, and closed in a forked child. */
int hp_socket_memory(const char *name);
void hp_socket_close(int fd); /* keeps errno */

int hp_socket_raise(int fd); /* any descriptor, moved to >= 3 if it was lower; -1 with errno */

/*
 * Around a fork, and around what no forked child may meet half done, such as a call into the C library that opens a
 * socket of its own for a moment. The lock is taken last; a thread that holds it takes no other one of this library.
 */
void hp_socket_lock(void);
void hp_socket_unlock(void);
/* In a forked child, instead of unlock: closes all sockets. */
void hp_socket_forked(void);

#endif
