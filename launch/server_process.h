/* SPDX-License-Identifier: MIT */
/*
 * server_process: hoop-launch --serve, the process that is hooprun's rendezvous server. The launcher starts it, and starts
 * it again when it dies: it knows nothing that the launcher or the ranks could not tell it again. They talk by the
 * messages of agent_msg.h over a pair of sockets, which is descriptor 3 here; when that ends, the launcher has ended, and
 * so does this process.
 */
#ifndef HP_LAUNCH_SERVER_PROCESS_H
#define HP_LAUNCH_SERVER_PROCESS_H

#include "net/secret.h"
#include "net/sock.h"

/* How the server is to serve, as HP_MSG_SERVE has it. */
typedef struct hp_serving {
    hp_addr listen; /* with port 0: the first free one of `ports`; else it comes back, there */
    hp_ports ports;
    hp_secret secret; /* the job's own key */
    char job[9];      /* its name */
    int size;         /* ranks */
    int logs;         /* every event is told, */
    int summary;      /* and what each ring has done */
} hp_serving;

int hp_server_process_main(void); /* the whole program; returns its exit status */

#endif
