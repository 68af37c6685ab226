/* SPDX-License-Identifier: MIT */
/* told: what a rank tells its test of a call that has ended, and what the test makes of it. */
#ifndef T_SYS_TOLD_H
#define T_SYS_TOLD_H

#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <stdio.h>

static party p;

typedef struct told {
    int result, rank, reporter, operation, flags; /* the call's result; the rest is the communicator's error */
    int wrong, ms;                                /* what the rank has counted; how long the call took */
    double at;                                    /* when it told it */
    char text[PARTY_NOTE];
} told;

/* In a rank. Returns 0. */
static inline int
tell_of(const hoop_comm *comm, hoop_result result, double since, int wrong)
{
    hoop_error e = {.size = sizeof(e)};
    hoop_comm_error(comm, &e);
    party_note("%d %d %d %d %d %d %d %.3f %s", (int)result, e.rank, e.reporter, (int)e.sequence, (int)e.flags, wrong,
               (int)((party_clock() - since) * 1000), party_clock(), e.text);
    return 0;
}

static inline int
tell(const hoop_comm *comm, hoop_result result, double since)
{
    return tell_of(comm, result, since, 0);
}

static inline told
hear(int rank)
{
    told t = {.result = -1, .rank = -1};
    int used = 0;
    if (sscanf(p.guest[rank].note, "%d %d %d %d %d %d %d %lf %n", &t.result, &t.rank, &t.reporter, &t.operation,
               &t.flags, &t.wrong, &t.ms, &t.at, &used) >= 8)
        snprintf(t.text, sizeof(t.text), "%s", p.guest[rank].note + used);
    return t;
}

/* For a check that has failed: what all ranks have told. Returns 0. */
static inline int
show(const char *what)
{
    for (int rank = 0; rank < p.size; rank++)
        diag("%s, rank %d (status %#x): %s", what, rank, (unsigned)p.guest[rank].status, p.guest[rank].note);
    return 0;
}

#endif
