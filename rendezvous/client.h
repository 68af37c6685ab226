/* SPDX-License-Identifier: MIT */
/*
 * client: one rank's control connection to the rendezvous server: join, learn the ring, report, hear of faults. Driven
 * by the loop it was given; state and sentence are kept here and read by lib/join.c and lib/comm.c; its one upward wire
 * is `kick`.
 */
#ifndef HP_CLIENT_H
#define HP_CLIENT_H

#include "net/dial.h"
#include "rendezvous/registration.h"

typedef enum hp_client_state {
    HP_CLIENT_JOINING, /* dialling, JOIN is out: awaits the roster */
    HP_CLIENT_ROSTER,  /* hp_client_ring() is there: the owner opens its links, then says hp_client_ready */
    HP_CLIENT_READY,   /* awaits GO: all ranks have their links */
    HP_CLIENT_GO,      /* member; verdicts may come */
    HP_CLIENT_LEFT,    /* LEAVE is out */
    HP_CLIENT_GONE,    /* the server is lost; the ring goes on without it (best effort names) */
    HP_CLIENT_FAILED   /* bring-up failed, hp_client_error has it */
} hp_client_state;

typedef struct hp_client hp_client;

/*
 * kick: something moved, look at the state; the client must not be freed inside it. options are copied. NULL when
 * memory runs out. While it is joining, a server that closes or is not there yet is dialled again until the deadline;
 * where the server gives no answer at all, the client gives up 0.3 s after it. Every failure before GO is
 * HP_CLIENT_FAILED.
 */
hp_client *hp_client_new(hp_loop *loop, const hp_client_options *options, void (*kick)(void *arg), void *arg);
hp_client_state hp_client_status(const hp_client *client);
const hp_addr *hp_client_awaits(const hp_client *client); /* the server that does not answer a newcomer; else NULL */
const hoop_error *hp_client_error(const hp_client *client);
const hp_ring *hp_client_ring(const hp_client *client); /* lives as long as the client */

void hp_client_ready(hp_client *client);
/* In an operation for longer than a moment (first call: IN_OP), and again every heartbeat (PROGRESS). */
void hp_client_in_op(hp_client *client, const hp_report *report);
/*
 * This rank has refused a call; it starts one after all (at once, however short that may be). Between the two its reports
 * are of operations from before.
 */
void hp_client_unstarted(hp_client *client, const hp_unstarted *unstarted);
void hp_client_started(hp_client *client, const hp_report *report);
/*
 * Whether the server can be expected to judge: it is not gone, its line was not reset, and it has not been silent for
 * two seconds of an operation.
 */
int hp_client_hears(const hp_client *client, uint64_t now);
void hp_client_out(hp_client *client, uint64_t completed);        /* no-op when IN_OP was not said */
void hp_client_abort(hp_client *client, const hoop_error *cause); /* relayed to every rank; the first one wins */

/* A ring connection has ended without a word: the server finds out what that means, and tells all ranks. */
void hp_client_lost(hp_client *client, const hp_loss *loss);
void hp_client_found(hp_client *client); /* it has been made again: no loss is said again */

/*
 * The line was reset, not closed: the server waits a moment for this member to come back. The owner says how many
 * operations it has started and completed; the client dials for five seconds at most, then it is HP_CLIENT_GONE. Causes,
 * losses and refusals are told again when it is back: they may have been told to a line that was broken already.
 */
int hp_client_is_away(const hp_client *client);
void hp_client_return(hp_client *client, uint64_t started,
                      uint64_t completed); /* no-op unless it is away, or when it dials */

/* This rank takes no part in the split of that number of the client's communicator: who waits for it is told so. */
void hp_client_refuse(hp_client *client, uint32_t split, const hoop_error *cause);

/* The group's first cause, once the server has told it: 1 and *error, else 0. */
int hp_client_verdict(const hp_client *client, hoop_error *error);

/* LEAVE with the number of operations completed; the bytes are flushed by hp_loop_run or hp_client_free (<= 100 ms). */
void hp_client_leave(hp_client *client, uint64_t completed);
void hp_client_abandon(const hp_client *client); /* in a forked child: closes the descriptor, touches nothing else */
void hp_client_free(hp_client *client);

#endif
