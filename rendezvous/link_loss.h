/* SPDX-License-Identifier: MIT */
/*
 * link_loss: ranks and connections that a ring has lost: which it is, and the sentence about it. Pure. If a connection broke
 * without LEAVE or ABORT, mostly a process has ended, which the server learns by itself, so it weighs for a moment what both
 * ends of the connection report. If no process has ended, the connection is the cause, and the error names both its ends. A
 * rank whose control connection broke is away: it may dial again.
 */
#ifndef HP_LINK_LOSS_H
#define HP_LINK_LOSS_H

#include "rendezvous/blame.h"

/* By rank, of one ring. */
typedef struct hp_link_losses {
    int size;
    hp_loss *loss;     /* the first that it has reported; peer -1: none */
    uint64_t *away;    /* when its control connection broke; 0: it is up, or has ended */
    uint64_t *alive;   /* when its process was proven to be alive since then; 0: it was not */
    int away_n, first; /* first: the rank that reported first, or -1 */
    uint64_t *since;   /* when each did */
    uint64_t deaf;     /* when the server last heard no rank at all; 0: it always has */
} hp_link_losses;

/* What the cause is. */
typedef enum hp_link_loss_finding {
    HP_LINK_LOSS_NONE, /* nothing, or not decided yet */
    HP_LINK_LOSS_GONE, /* a rank whose process has ended */
    HP_LINK_LOSS_CUT,  /* a rank whose host is cut off */
    HP_LINK_LOSS_LEFT, /* a rank that has left too early */
    HP_LINK_LOSS_LINK  /* a connection between two living ranks */
} hp_link_loss_finding;

typedef struct hp_link_loss_cause {
    hp_link_loss_finding finding;
    int rank,
        other;  /* GONE, CUT, LEFT: the rank, and the one that reported it; LINK: both ends, the lower rank first */
    int number; /* LINK: errno, 0: none */
    int alive;  /* LINK: both ends are known to be alive */
    uint64_t sequence;
} hp_link_loss_cause;

int hp_link_loss_open(hp_link_losses *losses, int size); /* 0: out of memory */
void hp_link_loss_close(hp_link_losses *losses);

void hp_link_loss_lost(hp_link_losses *losses, int rank, const hp_loss *loss,
                       uint64_t now);                      /* only a rank's first one counts */
void hp_link_loss_found(hp_link_losses *losses, int rank); /* the connection that the rank has lost was made again */
void hp_link_loss_away(hp_link_losses *losses, int rank, uint64_t now);
/* A rank that is away is proven to be alive: it may come back for as long as it dials. */
void hp_link_loss_alive(hp_link_losses *losses, int rank, uint64_t now);
void hp_link_loss_back(hp_link_losses *losses, int rank);

/* hasty: decide now, without awaiting other reports. */
hp_link_loss_cause hp_link_loss_judge(const hp_link_losses *losses, const hp_witness *witnesses, int hasty,
                                      uint64_t now);
/* A rank that has been away for as long as a member dials; -1: none. */
int hp_link_loss_stayed_away(const hp_link_losses *losses, uint64_t now);
/* The least operation that was reported with a lost link; 0: none. */
uint64_t hp_link_loss_oldest(const hp_link_losses *losses);

/*
 * Whether the server's own host is, or was a moment ago, cut off: no rank that is connected has acknowledged anything for
 * half of `limit`. Then the silence of a host, and the end of a connection to it, tell nothing of the ranks there.
 */
int hp_link_loss_is_deaf(hp_link_losses *losses, const hp_witness *witnesses, uint64_t limit, uint64_t now);

/* The rank to which this one has lost a connection that is made again; -1: none, or it has left. */
int hp_link_loss_mends(const hp_link_losses *losses, const hp_witness *witnesses, int rank);

int hp_link_loss_has_final(const hp_link_losses *losses); /* whether a connection was lost that is not made again */
int hp_link_loss_waits(const hp_link_losses *losses);     /* whether time alone may lead to a cause */
/*
 * Whether a rank that is away may come back, where no rank is connected: after the last word of any, as long as it would
 * dial. It notices the loss when it looks, which may be when it leaves, as the others have done.
 */
int hp_link_loss_returning(const hp_link_losses *losses, const hp_witness *witnesses, uint64_t now);

/*
 * The message of LINK. It is the same at the server, and at both ends when the server is lost. An end does
 * not know what the other one has seen, so its message has no operation and no errno.
 */
void hp_link_loss_print(const hp_link_loss_cause *cause, const hp_member *members, char *out, size_t size);
/* As an error; reporter -1: unknown. */
void hp_link_loss_error(const hp_link_loss_cause *cause, const hp_member *members, int reporter, hoop_error *error);

/* --- sentences about a rank that is gone while others need it --- */

/*
 * PEER_LOST: "rank 3 (node2) left the communicator after 16 operations while rank 1 (node1) waits in operation 17
 * (barrier)". sequence: HP_NO_OPERATION for a message.
 */
void hp_departure_left(const hp_ring_view *view, int rank, int waiter, uint64_t sequence, hoop_error *error);

/*
 * The operation in which a vanished rank was. If it has not reported one: that in which a link loss was reported, or the
 * oldest that another rank is in. lost_in: of a link loss, 0: none. 0: none is known.
 */
uint64_t hp_departure_operation(const hp_ring_view *view, int rank, uint64_t lost_in);

/*
 * PEER_LOST: "rank 3 (node2, pid 811) vanished during operation 17 (barrier): its process ended or its connection
 * broke". sequence: 0 for none; linking: during bring-up; why: instead of the last part, or NULL.
 */
void hp_departure_vanished(const hp_ring_view *view, int rank, uint64_t sequence, int linking, const char *why,
                           hoop_error *error);

/*
 * PEER_LOST: "rank 3 (node2, pid 811) is cut off during operation 17 (barrier): its host has acknowledged nothing for 31.0 s;
 * look at its cable, its switch and its firewall". If most hosts are as silent, the sentence is about the server's. rank
 * -1 then.
 */
void hp_departure_cut_off(const hp_ring_view *view, int rank, uint64_t sequence, int linking, hoop_error *error);

/*
 * "over: all 4 ranks left after 80 operations", or "over: 3 of 4 ranks left after 80 operations; rank 1 (node2, pid 811)
 * did not come back after its control connection broke".
 */
void hp_departure_over(const hp_ring_view *view, char *out, size_t size);

#endif
