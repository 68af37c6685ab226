/* SPDX-License-Identifier: MIT */
/*
 * link_loss: connections of a ring that broke although nobody said good-bye; pure. What the ends of a connection between
 * two ranks report is weighed for a moment, since it mostly follows from a process that has ended, which the server
 * learns by itself; where none has, the connection is the cause, and both its ends are named. A rank whose control
 * connection broke is away: it may dial again.
 */
#ifndef HP_LINK_LOSS_H
#define HP_LINK_LOSS_H

#include "rendezvous/blame.h"

/* By rank, of one ring. */
typedef struct hp_link_loss {
    int size;
    hp_loss *loss;     /* what it has reported first; peer -1: nothing */
    uint64_t *away;    /* when its control connection broke; 0: it stands, or has ended */
    int away_n, first; /* first: who reported a loss first, -1 */
    uint64_t since;    /* when */
} hp_link_loss;

/* Who is the cause. */
typedef enum hp_link_loss_finding {
    HP_LINK_LOSS_NONE, /* nobody, or not yet */
    HP_LINK_LOSS_GONE, /* a rank whose process has ended */
    HP_LINK_LOSS_LEFT, /* a rank that has left before its time */
    HP_LINK_LOSS_LINK  /* a connection between two that are alive */
} hp_link_loss_finding;

typedef struct hp_link_loss_cause {
    hp_link_loss_finding finding;
    int rank, other; /* GONE, LEFT: rank, and who reported it; LINK: both ends, the lower rank first */
    int number;      /* LINK: errno, 0: none */
    int alive;       /* LINK: that both are alive is known */
    uint64_t sequence;
} hp_link_loss_cause;

int hp_link_loss_open(hp_link_loss *losses, int size); /* 0: out of memory */
void hp_link_loss_close(hp_link_loss *losses);

void hp_link_loss_lost(hp_link_loss *losses, int rank, const hp_loss *loss,
                       uint64_t now); /* the first one of a rank counts */
void hp_link_loss_away(hp_link_loss *losses, int rank, uint64_t now);
void hp_link_loss_back(hp_link_loss *losses, int rank);

/* `hasty`: no more is to be waited for. */
hp_link_loss_cause hp_link_loss_judge(const hp_link_loss *losses, const hp_witness *witnesses, int hasty, uint64_t now);
int hp_link_loss_waits(const hp_link_loss *losses);              /* whether time alone may bring a finding */
int hp_link_loss_returning(const hp_link_loss *b, uint64_t now); /* whether a rank that is away may be dialling */

/*
 * The sentence of LINK, the same at the server and at both ends where the server is not heard: those do not know what
 * the other end has seen, so they give no operation and no errno.
 */
void hp_link_loss_print(const hp_link_loss_cause *cause, const hp_member *members, char *out, size_t size);
/* As an error; reporter -1: not known. */
void hp_link_loss_error(const hp_link_loss_cause *cause, const hp_member *members, int reporter, hoop_error *error);

#endif
