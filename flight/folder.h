/* SPDX-License-Identifier: MIT */
/*
 * folder: where recorders lie, and the sockets of servers. A process writes into $XDG_RUNTIME_DIR/hoop, or else into
 * /dev/shm/hoop-UID. Who looks for what others have written looks into both: they may have been started without the
 * variable, as batch jobs are. A folder is this user's and no other's, and no link; it keeps what a killed process has
 * written, until the machine is started again.
 */
#ifndef HP_FLIGHT_FOLDER_H
#define HP_FLIGHT_FOLDER_H

#include "flight/format.h"

enum { HP_FLIGHT_PATH = 256, HP_FLIGHT_FOLDERS = 2 };

/*
 * Makes and opens the folder in which this process writes. Returns a descriptor, which the caller closes, and its path;
 * -1 with the error filled.
 */
int hp_flight_folder_make(char path[HP_FLIGHT_PATH], hoop_error *error);

/*
 * Opens one of the HP_FLIGHT_FOLDERS in which this user's processes may have written. Without XDG_RUNTIME_DIR the first
 * is /run/user/UID/hoop: the variable's value in a login. Returns likewise; -1: it is absent, or not this user's alone.
 */
int hp_flight_folder_open(int number, char path[HP_FLIGHT_PATH], hoop_error *error);

/* A recorder that this process writes. */
typedef struct hp_flight_file {
    hp_flight_word *words; /* HP_FLIGHT_BYTES of it, zeros at first, absent in forked children; NULL: there is none */
    char path[HP_FLIGHT_PATH + 64];
} hp_flight_file;

/* Its bytes are reserved before they are mapped: a store into them cannot fail. */
hoop_result hp_flight_file_make(hp_flight_file *file, hoop_error *error);

/* Unmaps it, and removes it unless it is kept. */
void hp_flight_file_end(hp_flight_file *file, int keep);

/*
 * --- sockets PID-N.socket, at which servers are asked what their jobs do (rendezvous/inquiry.h), as those see them who ask.
 * One at which nobody listens any more is of a server that was killed. ---
 */

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
