/* SPDX-License-Identifier: MIT */
/*
 * link_loss: connections of a ring that broke although nobody said good-bye; pure. What the ends of a connection between
 * two ranks report is weighed for a moment, since it mostly follows from a process that has ended, which the server
 * learns by itself; where none has, the connection is the cause, and both its ends are named. A rank whose control
 * connection broke is away: it may dial again.
 */
#ifndef HP_BREACH_H
#define HP_BREACH_H

#include "rendezvous/blame.h"

/* By rank, of one ring. */
typedef struct hp_breach {
    int size;
    hp_loss *loss;     /* what it has reported first; peer -1: nothing */
    uint64_t *away;    /* when its control connection broke; 0: it stands, or has ended */
    int away_n, first; /* first: who reported a loss first, -1 */
    uint64_t since;    /* when */
} hp_breach;

/* Who is the cause. */
typedef enum hp_breach_finding {
    HP_BREACH_NONE, /* nobody, or not yet */
    HP_BREACH_GONE, /* a rank whose process has ended */
    HP_BREACH_LEFT, /* a rank that has left before its time */
    HP_BREACH_LINK  /* a connection between two that are alive */
} hp_breach_finding;

typedef struct hp_breach_cause {
    hp_breach_finding finding;
    int rank, other; /* GONE, LEFT: rank, and who reported it; LINK: both ends, the lower rank first */
    int number;      /* LINK: errno, 0: none */
    int alive;       /* LINK: that both are alive is known */
    uint64_t sequence;
} hp_breach_cause;

int hp_breach_open(hp_breach *breach, int size); /* 0: out of memory */
void hp_breach_close(hp_breach *breach);

void hp_breach_lost(hp_breach *breach, int rank, const hp_loss *loss,
                    uint64_t now); /* the first one of a rank counts */
void hp_breach_away(hp_breach *breach, int rank, uint64_t now);
void hp_breach_back(hp_breach *breach, int rank);

/* `hasty`: no more is to be waited for. */
hp_breach_cause hp_breach_judge(const hp_breach *breach, const hp_witness *witnesses, int hasty, uint64_t now);
int hp_breach_waits(const hp_breach *breach);              /* whether time alone may bring a finding */
int hp_breach_returning(const hp_breach *b, uint64_t now); /* whether a rank that is away may be dialling */

/*
 * The sentence of LINK, the same at the server and at both ends where the server is not heard: those do not know what
 * the other end has seen, so they give no operation and no errno.
 */
void hp_breach_print(const hp_breach_cause *cause, const hp_member *members, char *out, size_t size);
/* As an error; reporter -1: not known. */
void hp_breach_error(const hp_breach_cause *cause, const hp_member *members, int reporter, hoop_error *error);

#endif
