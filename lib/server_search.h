/* SPDX-License-Identifier: MIT */
/*
 * server_search: finds the server that rank 0 has started at one of a few ports. It may come later, and another program may
 * have the first of them. The server is the one that knows the job's key.
 */
#ifndef HP_SERVER_SEARCH_H
#define HP_SERVER_SEARCH_H

#include "lib/bounded_wait.h"
#include "net/auth.h"
#include "net/sock.h"

typedef struct hp_server_search_options {
    const char *host; /* a name or an address; it is resolved again until it is known */
    uint16_t first, last;
    int rank, size;
    const hp_keys *keys;
} hp_server_search_options;

/* HOOP_ERR_RENDEZVOUS: it was not found in time. The loop has no other users meanwhile. */
hoop_result hp_server_search_run(hp_addr *server, const hp_server_search_options *options, hp_loop *loop,
                                 hp_bounded_wait *wait, hoop_error *error);

#endif
