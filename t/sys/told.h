/* SPDX-License-Identifier: MIT */
/* told: what a rank tells its test of a call: result, rank named, operation, milliseconds, sentence. */
#ifndef T_SYS_TOLD_H
#define T_SYS_TOLD_H

#include "t/tools/party.h"

#include <stdio.h>

static party p;

typedef struct told {
    int result, rank, operation, ms;
    char text[PARTY_NOTE];
} told;

static int
tell(hoop_comm *comm, hoop_result result, double since)
{
    hoop_error e = {.size = sizeof(e)};
    hoop_comm_error(comm, &e);
    party_note("%d %d %d %d %s", (int)result, e.rank, (int)e.sequence, (int)((party_clock() - since) * 1000), e.text);
    return 0;
}

static told
hear(int rank)
{
    told t = {-1, -1, -1, -1, ""};
    sscanf(p.guest[rank].note, "%d %d %d %d %511[^\n]", &t.result, &t.rank, &t.operation, &t.ms, t.text);
    return t;
}

#endif
