/* SPDX-License-Identifier: MIT */
/*
 * Ranks that exchange do not announce their calls. Some call a small allreduce, the others something else: whoever they
 * are, every rank has HOOP_ERR_MISMATCH soon, with the server and without it. Only a broadcast may have ended before.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONG = 300000, SOON_MS = 4000 };

typedef enum other { OTHER_COUNT, LONG_ALLREDUCE, BROADCAST, BARRIER, ALLTOALL, OTHERS } other;
static const char *const name[OTHERS] = {"another count", "a long allreduce", "a broadcast", "a barrier",
                                         "an alltoall"};

/* Bit r of `who`: rank r calls the other one. */
typedef struct disagreement {
    other what;
    unsigned who;
    int without_server;
} disagreement;

static party p;

static hoop_result
call_other(other what, hoop_comm *comm)
{
    static int32_t from[LONG], to[LONG];
    switch (what) {
    case OTHER_COUNT: return hoop_allreduce(from, to, 5, HOOP_INT32, HOOP_SUM, comm);
    case LONG_ALLREDUCE: return hoop_allreduce(from, to, LONG, HOOP_INT32, HOOP_SUM, comm);
    case BROADCAST: return hoop_broadcast(from, to, 4, HOOP_INT32, 0, comm);
    case BARRIER: return hoop_barrier(comm);
    default: return hoop_alltoall(from, to, 3, HOOP_INT32, comm);
    }
}

static int
disagree(int rank, int size, void *arg)
{
    const disagreement *d = arg;
    int32_t from[4] = {0}, to[4];
    hoop_comm *comm = party_join(1);
    hoop_error e = {.size = sizeof(e)};
    (void)size;
    if (d->without_server)
        party_nap(1); /* the test ends the server meanwhile */
    double since = party_clock();
    hoop_result result =
        d->who >> rank & 1 ? call_other(d->what, comm) : hoop_allreduce(from, to, 4, HOOP_INT32, HOOP_SUM, comm);
    hoop_comm_error(comm, &e);
    party_note("%d %d %s", (int)result, (int)((party_clock() - since) * 1000), e.text);
    hoop_comm_destroy(comm);
    return 0;
}

static int
all_know(int size, disagreement *d)
{
    int right = 1, factor = getenv("HOOP_TEST_TIME_FACTOR") ? atoi(getenv("HOOP_TEST_TIME_FACTOR")) : 1;
    party_start(&p, size, disagree, d, 30);
    if (d->without_server) {
        party_await(&p);
        kill(p.server, SIGKILL);
    }
    party_wait(&p);
    for (int rank = 0; rank < size; rank++) {
        int result = 0, ms = -1;
        sscanf(p.guest[rank].note, "%d %d", &result, &ms);
        int may_end = d->what == BROADCAST && (d->who >> rank & 1);
        right &= case_ok((result == HOOP_ERR_MISMATCH || (may_end && result == HOOP_SUCCESS)) && ms < SOON_MS * factor,
                         "%d ranks, %s by %#x, rank %d: %s", size, name[d->what], d->who, rank, p.guest[rank].note);
    }
    return right;
}

static void
test_everybody(int size)
{
    for (other what = 0; what < OTHERS; what++) {
        int right = 1, runs = 0;
        for (unsigned who = 1; who + 1 < 1U << size && right;
             who += size > 4 ? 1 + (unsigned)tap_pick(120) : 1, runs++) {
            disagreement d = {what, who, 0};
            right = all_know(size, &d);
        }
        ok(right, "%d ranks: %s instead of a small allreduce, by whomever (%d runs)", size, name[what], runs);
    }
}

static void
test_without_server(int size)
{
    int right = 1;
    for (other what = 0; what < OTHERS && right; what++) {
        disagreement d = {what, 1 + (unsigned)tap_pick((1U << size) - 2), 1};
        party_open(&p);
        right = all_know(size, &d);
        party_close(&p);
    }
    ok(right, "%d ranks without a server: each of these", size);
}

int
main(void)
{
    tap_limit(280);
    plan_lazy();
    party_open(&p);
    test_everybody(2);
    test_everybody(4);
    test_everybody(8);
    party_close(&p);
    test_without_server(2);
    test_without_server(4);
    return 0;
}
