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
    uint64_t peer_timeout;
    hp_loss *loss;     /* the first that it has reported; peer -1: none */
    uint64_t *away;    /* when its control connection broke; 0: it is up, or has ended */
    uint64_t *alive;   /* when its process was proven to be alive since then; 0: it was not */
    uint64_t *doubted; /* since when another ring, or a probe, says that its process has ended; 0: nobody does */
    int away_n, first; /* first: the rank that reported first, or -1 */
    uint64_t *since;   /* when each did */
    uint64_t cut;      /* when a rank was found to be cut off; 0: none was */
    uint64_t deaf;     /* when the server last heard no rank at all; 0: it always has */
    int gone; /* a rank whose process has ended, and which is not named yet: others tell in which operation, or were earlier; -1: none */
    uint64_t gone_at;
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

int hp_link_loss_open(hp_link_losses *losses, int size, uint64_t peer_timeout); /* 0: out of memory */
void hp_link_loss_close(hp_link_losses *losses);

void hp_link_loss_lost(hp_link_losses *losses, int rank, const hp_loss *loss,
                       uint64_t now);                      /* only a rank's first one counts */
void hp_link_loss_found(hp_link_losses *losses, int rank); /* the connection that the rank has lost was made again */
void hp_link_loss_left(hp_link_losses *losses, int rank);  /* it waits for no connection that is to be made again */
void hp_link_loss_away(hp_link_losses *losses, int rank, uint64_t now);
/* It is cut off: if it is back within a minute, it hears so. */
void hp_link_loss_cut(hp_link_losses *losses, int rank, uint64_t now);
/* A rank that is away is proven to be alive: it may come back for as long as it dials. A doubt is over. */
void hp_link_loss_alive(hp_link_losses *losses, int rank, uint64_t now);
/* A rank that is away is alive, and has not dialled for as long as one in an operation would need. */
int hp_link_loss_is_idle(const hp_link_losses *losses, int rank, uint64_t now);
/* A probe, or another ring, says that the process of this rank has ended. */
void hp_link_loss_doubt(hp_link_losses *losses, int rank, uint64_t now);
/* Whether a rank that has not left has been doubted, or away, for a moment: its end may be why others leave. */
int hp_link_loss_doubts(const hp_link_losses *losses, const hp_witness *w, uint64_t now);
/* The process of this rank has ended. Of several, the first is kept: others may have ended because of it. */
void hp_link_loss_ended(hp_link_losses *losses, int rank, uint64_t now);
/*
 * The rank that has ended and is to be named now, or -1. That waits for a moment while another one may have ended before: a
 * reset may hide it.
 */
int hp_link_loss_named(hp_link_losses *losses, const hp_witness *witnesses, uint64_t now);
void hp_link_loss_back(hp_link_losses *losses, int rank);

/* hasty: decide now, without awaiting other reports. */
hp_link_loss_cause hp_link_loss_judge(const hp_link_losses *losses, const hp_witness *witnesses, int hasty,
                                      uint64_t now);
/* A rank that has been away for as long as a member dials, and, if its host was silent before, for peer_timeout; -1: none. */
int hp_link_loss_stayed_away(const hp_link_losses *losses, const hp_witness *witnesses, uint64_t now);
/* The least operation that was reported with a lost link; 0: none. */
uint64_t hp_link_loss_oldest(const hp_link_losses *losses);

enum { HP_RELISTEN_MS = 10000 }; /* so soon after a cut every host has answered, and every rank has dialled again */

/*
 * Whether the server's own host is, or was a moment ago, cut off: no rank that is connected has acknowledged anything for
 * half of peer_timeout. Then the silence of a host, and the end of a connection to it, tell nothing of the ranks there.
 */
int hp_link_loss_is_deaf(hp_link_losses *losses, const hp_witness *witnesses, uint64_t now);

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
 * The cause as an error; reporter -1: unknown. The message of LINK is the same at the server, and at both ends when the server
 * is lost. An end does not know what the other one has seen, so its message has no operation and no errno.
 */
void hp_link_loss_error(const hp_link_loss_cause *cause, const hp_member *members, int reporter, hoop_error *error);

#endif
