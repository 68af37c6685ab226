/* SPDX-License-Identifier: MIT */
/*
 * client: one rank's control connection to the rendezvous server: it joins, learns the ring, reports, and receives
 * verdicts. Its loop drives it. It keeps its state and its error; lib/join.c and lib/fault.c read them.
 */
#ifndef HP_CLIENT_H
#define HP_CLIENT_H

#include "net/loop.h"
#include "rendezvous/lateness.h"
#include "rendezvous/membership.h"

typedef struct hp_client hp_client;

/*
 * The options are copied. NULL when memory runs out. During the join the client dials a server again that closes the
 * connection or does not exist yet, until the deadline. If a server gives no answer, the client gives up 0.3 s after the
 * deadline; if it was there, and its host has acknowledged nothing for peer_timeout, some seconds after that. Every
 * failure before GO is HP_CLIENT_FAILED.
 */
hp_client *hp_client_new(hp_loop *loop, const hp_client_options *options);
hp_client_state hp_client_status(const hp_client *client);
/* The server, if it has not answered JOIN, with the dial to it (NULL: between two); else NULL. */
const hp_addr *hp_client_awaits(const hp_client *client, const hp_dial **dial);
const hoop_error *hp_client_error(const hp_client *client);
const hp_ring *hp_client_ring(const hp_client *client); /* lives as long as the client */

/* What the rank says and asks: the calls of membership.h on this. But those below need the loop, too. */
hp_membership *hp_client_membership(hp_client *client);
int hp_client_is_heard(const hp_client *client, uint64_t within); /* the server; as hp_link_is_heard */
void hp_client_in_op(hp_client *client, const hp_report *report);
void hp_client_started(hp_client *client, const hp_report *report);
/* What the server's answers have shown so far. asks: asks once more what time it is there. */
const hp_clock_offset *hp_client_compare_clocks(hp_client *client, int asks);
void hp_client_return(hp_client *client, uint64_t started, uint64_t completed);
/* A server that reads nothing has not taken all that was said: the client has to be driven until it has. */
int hp_client_lags(const hp_client *client);
void hp_client_leave(hp_client *client, uint64_t completed); /* hp_loop_run, or free in 100 ms, writes the bytes */
/*
 * Returns 1 as long as the server's host has not acknowledged LEAVE. redials: if TCP has sent it again, a new connection is
 * made, which is up at once; after an outage TCP itself sends only every few seconds.
 */
int hp_client_deliver_leave(hp_client *client, int redials);
void hp_client_free(hp_client *client);

#endif
