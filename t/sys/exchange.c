/* SPDX-License-Identifier: MIT */
/*
 * Ranks that exchange, and those over two levels, do not announce their calls. Some call a small allreduce, or an allgather
 * over levels, the others something else: whoever they are, every rank has HOOP_ERR_MISMATCH soon, with the server and
 * without it. Only a broadcast may have ended before.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONG = 300000, SOON_MS = 4000 };

typedef enum other {
    SMALL,
    OTHER_COUNT,
    LONG_ALLREDUCE,
    BROADCAST,
    BARRIER,
    ALLTOALL,
    ALLGATHER,
    REDUCE_SCATTER,
    GROUP,      /* of two, which have two numbers */
    LONG_GROUP, /* of twelve, which goes round the ring */
    TOO_LONG,   /* for two ranks to exchange: see lib/plan.c */
    TWO,        /* small and long, both in progress */
    OTHERS
} other;
static const char *const name[OTHERS] = {
    "a small allreduce", "another count", "a long allreduce",      "a broadcast",
    "a barrier",         "an alltoall",   "an allgather",          "a reduce_scatter",
    "a group",           "a long group",  "an array above 48 KiB", "two allreduces"};

/* Bit r of `who`: rank r calls the other one. */
typedef struct disagreement {
    other what, instead; /* of that */
    unsigned who;
    int host; /* ranks of one, over levels; 0: all are on one */
    int without_server;
} disagreement;

static party p;

static hoop_result
call_group(hoop_comm *comm, int calls, size_t count)
{
    static int32_t from[LONG], to[LONG];
    hoop_group_start(comm);
    for (int i = 0; i < calls; i++)
        hoop_allreduce(from + (size_t)i * count, to + (size_t)i * count, count, HOOP_INT32, HOOP_SUM, comm);
    return hoop_group_end(comm);
}

/* The first one, of 5 elements, is what differs. */
static hoop_result
call_two(hoop_comm *comm)
{
    static int32_t from[LONG], to[LONG];
    hoop_work *first, *second;
    hoop_result result = hoop_iallreduce(from, to, 5, HOOP_INT32, HOOP_SUM, comm, &first);
    if (result != HOOP_SUCCESS)
        return result;
    if (hoop_iallreduce(from + 5, to + 5, LONG - 5, HOOP_INT32, HOOP_SUM, comm, &second) == HOOP_SUCCESS)
        hoop_work_wait(second, -1);
    return hoop_work_wait(first, -1);
}

static hoop_result
call_other(other what, hoop_comm *comm)
{
    static int32_t from[LONG], to[LONG];
    switch (what) {
    case OTHER_COUNT: return hoop_allreduce(from, to, 5, HOOP_INT32, HOOP_SUM, comm);
    case LONG_ALLREDUCE: return hoop_allreduce(from, to, LONG, HOOP_INT32, HOOP_SUM, comm);
    case BROADCAST: return hoop_broadcast(from, to, 4, HOOP_INT32, 0, comm);
    case BARRIER: return hoop_barrier(comm);
    case GROUP: return call_group(comm, 2, 2);
    case LONG_GROUP: return call_group(comm, 12, 15000);
    case TOO_LONG: return hoop_allreduce(from, to, 12289, HOOP_INT32, HOOP_SUM, comm);
    case TWO: return call_two(comm);
    case SMALL: return hoop_allreduce(from, to, 4, HOOP_INT32, HOOP_SUM, comm);
    case ALLGATHER: return hoop_allgather(from, to, 4, HOOP_INT32, comm);
    case REDUCE_SCATTER: return hoop_reduce_scatter(from, to, 4, HOOP_INT32, HOOP_SUM, comm);
    default: return hoop_alltoall(from, to, 3, HOOP_INT32, comm);
    }
}

static int
soon_ms(void)
{
    return SOON_MS + (int)(tap_room() * 1000);
}

static int
disagree(int rank, int size, void *arg)
{
    const disagreement *d = arg;
    if (d->host)
        party_set_host(rank, d->host);
    hoop_comm *comm = party_join(1);
    hoop_error e = {.size = sizeof(e)};
    if (d->without_server)
        party_nap(0.5); /* the test ends the server meanwhile */
    double since = party_clock();
    hoop_result result = call_other(d->who >> rank & 1 ? d->what : d->instead, comm);
    hoop_comm_error(comm, &e);
    party_note("%d %d %s", (int)result, (int)((party_clock() - since) * 1000), e.text);
    hoop_comm_destroy(comm);
    return 0;
}

/* Runs them; the server ends once all have joined, if it shall. */
static void
run(int size, party_fn *fn, void *arg, int without_server)
{
    party_start(&p, size, fn, arg, 90);
    if (without_server) {
        party_await(&p);
        kill(p.server, SIGKILL);
    }
    party_wait(&p);
}

/* What a rank's call returned, and whether it did so soon. */
static hoop_result
returned(int rank, int *soon)
{
    int result = 0, ms = soon_ms();
    sscanf(p.guest[rank].note, "%d %d", &result, &ms);
    *soon = ms < soon_ms();
    return (hoop_result)result;
}

/* A rank leaves, or its process ends, before the first operation of the others. */
typedef struct absence {
    int rank, ends;
} absence;

static int
miss(int rank, int size, void *arg)
{
    const absence *missing = arg;
    int32_t one = 1, sum = 0;
    hoop_comm *comm = party_join(0);
    hoop_error e = {.size = sizeof(e)};
    party_nap(0.5); /* the test ends the server meanwhile */
    if (rank == missing->rank && missing->ends)
        _exit(0);
    if (rank == missing->rank)
        return hoop_comm_destroy(comm) != HOOP_SUCCESS;
    party_nap(0.5);
    double since = party_clock();
    hoop_result result = hoop_allreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, comm);
    hoop_comm_error(comm, &e);
    party_note("%d %d %s", (int)result, (int)((party_clock() - since) * 1000), e.text);
    hoop_comm_destroy(comm);
    return 0;
}

static void
test_missing(int size, absence missing)
{
    int right = 1, soon;
    party_open(&p);
    run(size, miss, &missing, 1);
    for (int rank = 0; rank < size; rank++)
        right &= rank == missing.rank ||
                 case_ok(returned(rank, &soon) == HOOP_ERR_PEER_LOST && soon, "rank %d: %s", rank, p.guest[rank].note);
    ok(right, "%d ranks without a server: rank %d %s before the first operation", size, missing.rank,
       missing.ends ? "ends" : "leaves");
    party_close(&p);
}

/* The other rank comes late to the first exchange: what is waited for is that rank, not the connection. */
static int
wait_for_late(int rank, int size, void *arg)
{
    int late = *(int *)arg;
    int32_t one = 1, sum = 0;
    hoop_comm *comm = party_join(0);
    hoop_stats stats = {.size = sizeof(stats)};
    if (rank == late)
        party_nap(0.6);
    hoop_allreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, comm);
    hoop_comm_stats(comm, &stats);
    party_note("%.2f %.2f", (double)stats.waited_peer_ns / 1e9, (double)stats.waited_link_ns / 1e9);
    return sum != 2 || hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

static void
test_late(int late)
{
    double peer = -1, link = -1;
    is_int(0, party_run(&p, 2, wait_for_late, &late, 90), "rank %d is late for the first exchange", late);
    sscanf(p.guest[!late].note, "%lf %lf", &peer, &link);
    ok(peer > 0.4 && link < 0.1, "the other one has waited for it, not for the connection: %s", p.guest[!late].note);
}

static int
all_know(int size, disagreement *d)
{
    int right = 1, soon;
    run(size, disagree, d, d->without_server);
    for (int rank = 0; rank < size; rank++) {
        hoop_result result = returned(rank, &soon);
        int may_end = d->what == BROADCAST && (d->who >> rank & 1) && result == HOOP_SUCCESS;
        int named = d->what != TWO || strstr(p.guest[rank].note, "called allreduce of 5 x int32");
        right &= case_ok(((result == HOOP_ERR_MISMATCH && named) || may_end) && soon,
                         "%d ranks, %s by %#x instead of %s, rank %d: %s", size, name[d->what], d->who,
                         name[d->instead], rank, p.guest[rank].note);
    }
    return right;
}

static void
test_everybody(int size)
{
    for (other what = OTHER_COUNT; what < OTHERS; what++) {
        int right = 1, runs = 0;
        for (unsigned who = 1; who + 1 < 1U << size && right;
             who += size == 2 ? 1 : 1 + (unsigned)tap_pick(size == 4 ? 3 : 120), runs++) {
            disagreement d = {what, SMALL, who, 0, 0};
            right = all_know(size, &d);
        }
        ok(right, "%d ranks: %s instead of a small allreduce, by whomever (%d runs)", size, name[what], runs);
    }
}

static void
test_without_server(int size)
{
    int right = 1;
    for (other what = OTHER_COUNT; what < OTHERS && right; what++) {
        disagreement d = {what, SMALL, 1 + (unsigned)tap_pick((1U << size) - 2), 0, 1};
        party_open(&p);
        right = all_know(size, &d);
        party_close(&p);
    }
    ok(right, "%d ranks without a server: each of these", size);
}

/* Two hosts of two ranks each. */
static void
test_levels(other instead, int without_server)
{
    int right = 1, runs = 0;
    for (other what = 0; what < OTHERS && right; what++)
        for (unsigned who = 1; who < 15 && right && what != instead; who += 1 + (unsigned)tap_pick(5), runs++) {
            disagreement d = {what, instead, who, 2, without_server};
            if (without_server)
                party_open(&p);
            right = all_know(4, &d);
            if (without_server)
                party_close(&p);
            who += without_server ? 5 : 0;
        }
    ok(right, "over levels%s: others instead of %s, by whomever (%d runs)", without_server ? " without a server" : "",
       name[instead], runs);
}

static void
play(int scene)
{
    static const int sizes[] = {2, 4, 8};
    if (scene >= 6)
        test_levels(scene % 2 ? ALLGATHER : REDUCE_SCATTER, scene >= 8);
    else if (scene < 3)
        test_everybody(sizes[scene]);
    else if (scene < 5)
        test_without_server(sizes[scene - 3]);
    else
        for (int ends = 0; ends < 2; ends++) {
            test_missing(2, (absence){0, ends});
            test_missing(2, (absence){1, ends});
            test_missing(4, (absence){3, ends});
        }
}

int
main(void)
{
    tap_limit(280);
    setenv("HOOP_OP_TIMEOUT_MS", "120000", 1);
    plan_lazy();
    party_open(&p);
    test_late(0);
    test_late(1);
    tap_scenes(10, play);
    party_close(&p);
    return 0;
}
