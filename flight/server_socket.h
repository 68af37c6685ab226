/* SPDX-License-Identifier: MIT */
/*
 * server_socket: the sockets PID-N.socket in this user's folder at which servers are asked what their jobs do
 * (rendezvous/inquiry.h), as those see them who ask. One at which nobody listens any more is of a server that was killed.
 */
#ifndef HP_SERVER_SOCKET_H
#define HP_SERVER_SOCKET_H

/* The process that made it, by the name of the file; 0: another file. */
int hp_server_socket_pid(const char *name);

/* A connected socket, which does not block; -1 with errno. The path must be short: see hp_server_socket_path. */
int hp_server_socket_connect(const char *path);

enum { HP_SERVER_SOCKET_PATH = 64 };

/* The path of a file in an open folder, valid while the folder is open: short, whatever the folder's own. Returns out. */
const char *hp_server_socket_path(int folder, const char *name, char out[HP_SERVER_SOCKET_PATH]);

/*
 * Whether the file is a socket of this user, no link to one, at which the kernel says that nobody listens. A server that
 * is stopped, or in another container, listens.
 */
int hp_server_socket_is_dead(int folder, const char *name);

#endif
