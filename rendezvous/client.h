/* SPDX-License-Identifier: MIT */
/*
 * client: one rank's control connection to the rendezvous server: it joins, learns the ring, reports, and receives
 * verdicts. Its loop drives it. It keeps its state and its error; lib/join.c and lib/fault.c read them. It calls
 * upwards only by `kick`.
 */
#ifndef HP_CLIENT_H
#define HP_CLIENT_H

#include "net/loop.h"
#include "rendezvous/clock_offset.h"
#include "rendezvous/membership.h"

typedef struct hp_client hp_client;

/*
 * kick: the state has changed; the owner must not free the client inside it. The options are copied. NULL when memory
 * runs out. During the join the client dials a server again that closes the connection or does not exist yet, until the
 * deadline. If a server gives no answer, the client gives up 0.3 s after the deadline. Every failure before GO is
 * HP_CLIENT_FAILED.
 */
hp_client *hp_client_new(hp_loop *loop, const hp_client_options *options, void (*kick)(void *arg), void *arg);
hp_client_state hp_client_status(const hp_client *client);
/* The server, if it has not answered JOIN, with the dial to it (NULL: between two); else NULL. */
const hp_addr *hp_client_awaits(const hp_client *client, const hp_dial **dial);
const hoop_error *hp_client_error(const hp_client *client);
const hp_ring *hp_client_ring(const hp_client *client); /* lives as long as the client */

void hp_client_ready(hp_client *client);
/*
 * This rank is in an operation for longer than a moment (the first call sends IN_OP, and later ones, each heartbeat,
 * PROGRESS).
 */
void hp_client_in_op(hp_client *client, const hp_report *report);
/*
 * This rank has refused a call; it has started one after all (call it at once, however short the operation). Between
 * the two calls this rank's reports are about earlier operations.
 */
void hp_client_unstarted(hp_client *client, const hp_unstarted *unstarted);
void hp_client_started(hp_client *client, const hp_report *report);
/*
 * Whether the server can judge: it is not lost, its connection was not reset, and it has not been silent for two
 * seconds of an operation.
 */
int hp_client_has_server(const hp_client *client, uint64_t now);
/* What the server's answers have shown so far. asks: asks once more what time it is there. */
const hp_clock_offset *hp_client_compare_clocks(hp_client *client, int asks);

void hp_client_out(hp_client *client, uint64_t completed);        /* nothing is sent if IN_OP was not */
void hp_client_abort(hp_client *client, const hoop_error *cause); /* relayed to every rank; the first one wins */

/*
 * A frame that changes sentences and tables alone: STATS, WAITING. 0: it was not sent, because the server does not have this
 * feature, or is away, or many bytes are not sent yet.
 */
int hp_client_inform(hp_client *client, uint64_t feature, hp_frame_type type, const void *payload, size_t n);

/* A ring connection has ended without LEAVE or ABORT: the server finds the cause and sends it to all ranks. */
void hp_client_lost(hp_client *client, const hp_loss *loss);
void hp_client_found(hp_client *client); /* the connection was made again: the loss is not reported again */

/*
 * hp_client_is_away: the control connection was reset, not closed. The server gives this member a moment to dial
 * again. hp_client_return dials, with the numbers of operations started and completed; it is called until the member is
 * back, or nobody listens there any more (HP_CLIENT_GONE). A server that does not answer is not gone. Causes, losses and
 * refused calls are sent again when the member is back, because they may have been lost.
 */
int hp_client_is_away(const hp_client *client);
void hp_client_return(hp_client *client, uint64_t started, uint64_t completed); /* no-op unless away, or if dialling */

/*
 * This rank takes no part in the split of that number of the client's communicator: the server informs the ranks that
 * wait.
 */
void hp_client_refuse(hp_client *client, uint32_t split, const hoop_error *cause);

/*
 * A name for tables and lines of the server. number 0: the communicator's (empty: none). Others: that of calls, of which
 * each is told once, in their order from 1. 0: not before GO, and not names of calls to a server that does not take them.
 */
int hp_client_name(hp_client *client, int number, const char *name);

/* The ring's first cause, once the server has sent it: returns 1 and *error, else 0. */
int hp_client_verdict(const hp_client *client, hoop_error *error);

/*
 * Sends LEAVE with the number of completed operations; hp_loop_run or hp_client_free (<= 100 ms) writes the bytes. A
 * connection that is reset then is made again, while the loop runs. hp_client_is_leaving: the server has not read LEAVE yet,
 * as far as is known, and may still do so.
 */
void hp_client_leave(hp_client *client, uint64_t completed);
int hp_client_is_leaving(const hp_client *client);
void hp_client_free(hp_client *client);

#endif
