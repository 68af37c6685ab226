/* SPDX-License-Identifier: MIT */
/*
 * server_process: hoop-launch --serve, the process that is hooprun's rendezvous server. The launcher starts it, and starts
 * it again when it dies: it knows nothing that the launcher or the ranks could not tell it again. Descriptor 0 is a socket
 * to the launcher, over which go the messages of agent_msg.h; when that ends, the launcher has ended, and so does this
 * process. Descriptor 3 is the socket at which the ranks join. It listens all the time, so what connects while no process
 * runs waits for the next one.
 */
#ifndef HP_LAUNCH_SERVER_PROCESS_H
#define HP_LAUNCH_SERVER_PROCESS_H

#include "net/secret.h"

enum { HP_SERVER_LISTENER = 3 };

/* How the server is to serve, as HP_MSG_SERVE has it. */
typedef struct hp_serving {
    hp_secret secret; /* the job's own key */
    char job[9];      /* its name */
    int size;         /* ranks */
    int logs;         /* every event is told, */
    int summary;      /* and what each ring has done */
} hp_serving;

int hp_server_process_main(void); /* the whole program; returns its exit status */

#endif
