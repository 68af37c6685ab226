/* SPDX-License-Identifier: MIT */
/*
 * server_search: finds the server where it may be at one of several addresses: the ports of rank 0's host, or what a name
 * stands for. It may come later, and another program may have an address. The server is the one that knows the job's key.
 */
#ifndef HP_SERVER_SEARCH_H
#define HP_SERVER_SEARCH_H

#include "lib/bounded_wait.h"
#include "net/auth.h"
#include "net/handshake.h"
#include "net/sock.h"

typedef struct hp_server_search_options {
    const char *what; /* is looked for: "the server of rank 0" */
    const char *host; /* a name or an address */
    hp_hello hello;   /* job and mode are those of the keys */
    const hp_keys *keys;
} hp_server_search_options;

/*
 * The server that rank 0 has started at one of these ports of its host, whose name is resolved again until it is known.
 * HOOP_ERR_RENDEZVOUS: it was not found in time. The loop has no other users meanwhile.
 */
hoop_result hp_server_search_ports(hp_addr *server, uint16_t first, uint16_t last, const hp_server_search_options *o,
                                   hp_loop *loop, hp_bounded_wait *wait, hoop_error *error);

/*
 * The one of these addresses of a host that is the server's; of one address that. The error is that of a dial, or
 * HOOP_ERR_ABORTED if the program interrupts it. `wait` only tells when its lines are due.
 */
hoop_result hp_server_search_addresses(hp_addr *server, const hp_addr_list *to, const hp_server_search_options *o,
                                       hp_loop *loop, hp_bounded_wait *wait, hoop_error *error);

#endif
