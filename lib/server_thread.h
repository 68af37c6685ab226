/* SPDX-License-Identifier: MIT */
/*
 * server_thread: this process's rendezvous server, if it has one: the server of rendezvous/server.c on a thread and a
 * loop of its own. A fork waits until the thread is between two events: in the middle of one it may hold a lock of
 * libcrypto or of the program's allocator, which the child would find locked for ever. (Seen with AddressSanitizer's
 * allocator; t/sys/serve.c.) The sockets are closed by net/socket.c.
 */
#ifndef HP_SERVER_THREAD_H
#define HP_SERVER_THREAD_H

#include "rendezvous/server.h"

/* Held while the server is started or stopped. A fork does not wait for it, and the child finds it free. */
void hp_server_thread_lock(void);
void hp_server_thread_unlock(void);

/* Under the lock. There must be no server yet. The options' secret is copied. */
hoop_result hp_server_thread_start(const hp_server_options *options, hoop_error *error);
const hp_addr *hp_server_thread_addr(void); /* under the lock: where it listens; NULL: there is no server */
/*
 * Under the lock. The server is announced to others at `announced`, and this process itself uses `own`: it may not be able to reach the
 * address that a proxy or a router has for it.
 */
void hp_server_thread_announce(const hp_addr *announced, const hp_addr *own);
/* If `server` is where this process's server is announced, it becomes its own address. */
void hp_server_thread_come_home(hp_addr *server);
int hp_server_thread_is_here(void); /* whether this process has a server */
void hp_server_thread_stop(void);   /* under the lock: waits until the thread has ended; none is fine */

/* Around a fork; forked in the child, instead of after_fork: frees nothing, and there is no server. */
void hp_server_thread_before_fork(void);
void hp_server_thread_after_fork(void);
void hp_server_thread_forked(void);

/*
 * Until the hosts of its ranks have what this process's server has to tell them, for at most a second: the process may end
 * next. No server is fine.
 */
void hp_server_thread_deliver(void);

#endif
