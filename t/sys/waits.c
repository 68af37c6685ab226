/* SPDX-License-Identifier: MIT */
/*
 * Every way to wait, however short, moves everything: connections that an operation needs for the first time,
 * handshakes, the server's line. Each operation here is the first one on a ring of its own, so it opens the links of its
 * shape while ranks wait for it, all in one way or each in another. As a program of hooprun it does so on any network.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8, LONG = 120000, LIMIT_MS = 6000 };

typedef enum way { WAIT_0, WAIT_1, WAIT_2, WAIT_5, MIXED, TEST, PROGRESS, DESCRIPTOR, THREADS, WAYS } way;

static const char *const way_name[WAYS] = {
    "waits of 0 ms", "waits of 1 ms",      "waits of 2 ms", "waits of 5 ms", "each rank in another way",
    "tests",         "hoop_comm_progress", "a descriptor",  "two threads"};

typedef enum algorithm {
    ALLREDUCE,
    BROADCAST,
    REDUCE,
    GATHER,
    SCATTER,
    ALLTOALL,
    BARRIER,
    ALLGATHER,
    REDUCE_SCATTER,
    GROUP
} algorithm;

/* The sizes of allreduce are those of SPREAD, DOUBLING, HALVES and the ring, with HOOP_SPREAD_BYTES=16384. */
static const struct first {
    algorithm algorithm;
    size_t count;
} firsts[] = {{ALLREDUCE, 1},    {ALLREDUCE, 500},  {ALLREDUCE, 4000},      {ALLREDUCE, 50000}, {ALLREDUCE, LONG},
              {BROADCAST, 5000}, {REDUCE, 5000},    {GATHER, 1000},         {SCATTER, 1000},    {ALLTOALL, 1000},
              {BARRIER, 1},      {ALLGATHER, 1000}, {REDUCE_SCATTER, 1000}, {GROUP, 700}};
enum { FIRSTS = sizeof(firsts) / sizeof(firsts[0]) };

static int by_hooprun; /* nobody reads notes */
static int32_t in[MOST * LONG], out[MOST * LONG];

/* A root that differs from rank 0 where it can. */
static hoop_result
start(const struct first *f, hoop_comm *comm, hoop_work **work)
{
    int root = hoop_comm_size(comm) - 1;
    switch (f->algorithm) {
    case ALLREDUCE: return hoop_iallreduce(in, out, f->count, HOOP_INT32, HOOP_SUM, comm, work);
    case BROADCAST: return hoop_ibroadcast(in, out, f->count, HOOP_INT32, root, comm, work);
    case REDUCE: return hoop_ireduce(in, out, f->count, HOOP_INT32, HOOP_SUM, root, comm, work);
    case GATHER: return hoop_igather(in, out, f->count, HOOP_INT32, root, comm, work);
    case SCATTER: return hoop_iscatter(in, out, f->count, HOOP_INT32, root, comm, work);
    case ALLTOALL: return hoop_ialltoall(in, out, f->count, HOOP_INT32, comm, work);
    case BARRIER: return hoop_ibarrier(comm, work);
    case ALLGATHER: return hoop_iallgather(in, out, f->count, HOOP_INT32, comm, work);
    case REDUCE_SCATTER: return hoop_ireduce_scatter(in, out, f->count, HOOP_INT32, HOOP_SUM, comm, work);
    case GROUP: break;
    }
    hoop_group_start(comm);
    hoop_allreduce(in, out, f->count, HOOP_INT32, HOOP_SUM, comm);
    hoop_allreduce(in + f->count, out + f->count, f->count, HOOP_INT32, HOOP_SUM, comm);
    return hoop_igroup_end(comm, work);
}

/* Element i of rank r is 1000 r + i % 997. */
static int64_t
expected(const struct first *f, int rank, int n, size_t i)
{
    int64_t all = 1000 * (int64_t)n * (n - 1) / 2, root = 1000 * (int64_t)(n - 1);
    size_t c = f->count;
    switch (f->algorithm) {
    case ALLREDUCE:
    case GROUP:
    case REDUCE: return all + n * (int64_t)(i % 997);
    case BROADCAST: return root + (int64_t)(i % 997);
    case GATHER:
    case ALLGATHER: return 1000 * (int64_t)(i / c) + (int64_t)(i % c % 997);
    case SCATTER: return root + (int64_t)(((size_t)rank * c + i) % 997);
    case ALLTOALL: return 1000 * (int64_t)(i / c) + (int64_t)(((size_t)rank * c + i % c) % 997);
    case REDUCE_SCATTER: return all + n * (int64_t)(((size_t)rank * c + i) % 997);
    case BARRIER: break;
    }
    return -1;
}

static int
wrong(const struct first *f, int rank, int n)
{
    size_t count = f->count;
    int bad = 0;
    if (f->algorithm == GATHER || f->algorithm == ALLGATHER || f->algorithm == ALLTOALL)
        count *= (size_t)n;
    if (f->algorithm == GROUP)
        count *= 2;
    if (f->algorithm == BARRIER || ((f->algorithm == REDUCE || f->algorithm == GATHER) && rank != n - 1))
        count = 0;
    for (size_t i = 0; i < count; i++)
        bad += out[i] != expected(f, rank, n, i);
    return bad;
}

static hoop_result
wait_for(hoop_work *work, int ms)
{
    hoop_result result;
    do
        result = hoop_work_wait(work, ms);
    while (result == HOOP_IN_PROGRESS);
    return result;
}

/* Looks until it is done, sleeping on the descriptor if there is one. */
static hoop_result
look(hoop_comm *comm, hoop_work *work, int progress, int fd)
{
    struct pollfd ready = {fd, POLLIN, 0};
    hoop_result result;
    int done = 0;
    while ((result = hoop_work_test(work, &done)) == HOOP_SUCCESS && !done) {
        if (fd >= 0)
            poll(&ready, 1, LIMIT_MS);
        if (progress)
            hoop_comm_progress(comm);
    }
    return wait_for(work, 0);
}

static void *
wait_beside(void *work)
{
    return (void *)(intptr_t)wait_for(work, 1);
}

static hoop_result
threads(hoop_comm *comm, hoop_work *work)
{
    static int32_t one[1], sum[1];
    hoop_work *more = NULL;
    pthread_t thread;
    void *first = NULL;
    hoop_result result = hoop_iallreduce(one, sum, 1, HOOP_INT32, HOOP_SUM, comm, &more);
    if (pthread_create(&thread, NULL, wait_beside, work) != 0)
        return HOOP_ERR_SYSTEM;
    if (result == HOOP_SUCCESS)
        result = wait_for(more, 0);
    pthread_join(thread, &first);
    return first ? (hoop_result)(intptr_t)first : result;
}

static hoop_result
end(hoop_comm *comm, hoop_work *work, way how)
{
    static const int ms[] = {0, 1, 2, 5};
    if (how == MIXED)
        how = (way)(hoop_comm_rank(comm) % MIXED);
    switch (how) {
    case TEST: return look(comm, work, 0, -1);
    case PROGRESS: return look(comm, work, 1, -1);
    case DESCRIPTOR: return look(comm, work, 1, hoop_comm_fd(comm));
    case THREADS: return threads(comm, work);
    default: return wait_for(work, ms[how]);
    }
}

static int
operate(hoop_comm *world, const struct first *f, way how)
{
    int rank = hoop_comm_rank(world), n = hoop_comm_size(world), bad = 0;
    hoop_error e = {.size = sizeof(e)};
    hoop_work *work = NULL;
    hoop_comm *comm = NULL;
    for (size_t i = 0; i < f->count * (size_t)n; i++)
        in[i] = 1000 * rank + (int32_t)(i % 997);
    memset(out, 0xff, sizeof(out));
    hoop_result result = hoop_comm_split(world, 0, rank, &comm);
    if (result == HOOP_SUCCESS)
        result = start(f, comm, &work);
    if (result == HOOP_SUCCESS)
        result = end(comm, work, how);
    if (result == HOOP_SUCCESS)
        bad = wrong(f, rank, n);
    hoop_comm_error(comm, &e);
    if (by_hooprun && (bad || result != HOOP_SUCCESS))
        fprintf(stderr, "shape %d of %zu elements, %s: result %d, %d wrong: %s\n", f->algorithm, f->count,
                way_name[how], (int)result, bad, e.text);
    else if (bad || result != HOOP_SUCCESS)
        party_note("shape %d of %zu elements, %s: result %d, %d wrong: %s", f->algorithm, f->count, way_name[how],
                   (int)result, bad, e.text);
    hoop_comm_destroy(comm);
    return bad || result != HOOP_SUCCESS;
}

static int
be_rank(int rank, int size, void *arg)
{
    const way *how = arg;
    hoop_comm *world;
    int bad = 0;
    if (hoop_comm_create(&world, NULL) != HOOP_SUCCESS)
        return 1;
    for (int i = 0; i < FIRSTS && !bad; i++)
        bad = operate(world, &firsts[i], *how);
    return bad || hoop_comm_destroy(world) != HOOP_SUCCESS;
}

/* Under hooprun: all ways, one after the other. */
static int
under_hooprun(void)
{
    int bad = 0;
    by_hooprun = 1;
    for (way how = 0; how < WAYS && !bad; how++)
        bad = be_rank(0, 0, &how);
    return bad;
}

int
main(int argc, char **argv)
{
    static const int sizes[] = {2, 3, 4, 5, 6, 7, 8};
    char limit[16];
    party p;
    snprintf(limit, sizeof(limit), "%d", LIMIT_MS);
    setenv("HOOP_OP_TIMEOUT_MS", limit, 1);
    setenv("HOOP_SPREAD_BYTES", "16384", 1);
    if (argc > 1 && strcmp(argv[1], "rank") == 0)
        return under_hooprun();
    tap_limit(280);
    plan_lazy();
    party_open(&p);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        int n = sizes[i];
        for (way how = 0; how < WAYS; how++)
            if (n == 4 || n == MOST || getenv("HOOP_TEST_FULL") || (size_t)how % 3 == i % 3)
                is_int(0, party_run(&p, n, be_rank, &how, 60), "%d ranks, the first operation of every shape: %s", n,
                       way_name[how]);
    }
    party_close(&p);
    return tap_failures() != 0;
}
