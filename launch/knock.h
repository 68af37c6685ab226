/* SPDX-License-Identifier: MIT */
/*
 * knock: an agent that has heard nothing from the launcher for a while makes a new connection to the job's server, which
 * the launcher has, and proves in a handshake (HP_ROLE_ASK) on which rank's host it is. An answer tells it that the
 * launcher lives and can be reached. One attempt at a time.
 */
#ifndef HP_LAUNCH_KNOCK_H
#define HP_LAUNCH_KNOCK_H

#include "net/handshake.h"
#include "net/loop.h"
#include "net/sock.h"

typedef struct hp_knock {
    hp_loop *loop;
    hp_addr server;
    hp_keys *keys; /* NULL: it cannot knock */
    hp_hello hello;
    int fd; /* -1: no attempt */
    hp_watch *watch;
    int connected;
    hp_handshake handshake;
    uint64_t answered; /* when the server accepted a connection last; 0: never */
} hp_knock;

/*
 * server: its address, "host:port" in numbers; NULL or another text: the knock never has an answer. secret_fd: the sealed
 * file with the job's key, only read here. rank: one that runs on this host.
 */
void hp_knock_open(hp_knock *knock, hp_loop *loop, const char *server, int secret_fd, int rank);
void hp_knock_again(hp_knock *knock); /* ends the last attempt, and starts the next one */
void hp_knock_close(hp_knock *knock); /* zeroed memory is fine */

#endif
