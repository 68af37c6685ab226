/* SPDX-License-Identifier: MIT */
/*
 * No allocation from call to call: once every kind of call has been made, the library asks for no memory and gives none
 * back, whichever way the calls are made. What libevent and libcrypto would ask for on its behalf counts too.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/ledger.h"
#include "t/tools/party.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WARM = 3, COUNTED = 4, MOST = 1 << 20, FLOCK = 12, TENSORS = 40 };

typedef struct room {
    hoop_comm *comm;
    int rank, size, right;
    float *in, *out;
} room;

static void
must(room *r, hoop_result result)
{
    r->right &= result == HOOP_SUCCESS;
}

/* From a barrier's nothing to a ring's many loops, through every shape that an allreduce can have. */
static void
allreduces(room *r)
{
    static const size_t counts[] = {0, 1, 100, 3000, 20000, 100003, MOST};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        must(r, hoop_comm_set_call_name(r->comm, i % 2 ? "gradients" : "loss"));
        must(r, hoop_allreduce(r->in, r->out, counts[i], HOOP_FLOAT32, HOOP_SUM, r->comm));
        must(r, hoop_allreduce(r->out, r->out, counts[i], HOOP_FLOAT32, HOOP_MAX, r->comm));
    }
}

/* Blocks whose order must be found, and none; several at once. */
static void
uneven(room *r)
{
    const size_t counts[4] = {1000, 70000, 0, 3}, displs[4] = {MOST / 2, MOST / 4, 0, 7};
    hoop_work *work[4];
    for (int i = 0; i < 4; i++)
        must(r, hoop_ireduce_scatterv(r->in, r->out + MOST / 4 * i, counts, displs, HOOP_FLOAT32, HOOP_SUM, r->comm,
                                      &work[i]));
    must(r, hoop_wait_all(work, 4));
    must(r, hoop_allgatherv(r->in, r->out, counts[r->rank], counts, displs, HOOP_FLOAT32, r->comm));
    must(r, hoop_allgatherv(r->in, r->out, counts[r->rank], counts, NULL, HOOP_FLOAT32, r->comm));
}

static void
others(room *r)
{
    for (size_t n = 10; n <= MOST / 8; n *= 100) {
        must(r, hoop_reduce_scatter(r->in, r->out, n, HOOP_FLOAT32, HOOP_SUM, r->comm));
        must(r, hoop_allgather(r->in, r->out, n, HOOP_FLOAT32, r->comm));
        must(r, hoop_broadcast(r->in, r->out, n, HOOP_FLOAT32, 1, r->comm));
        must(r, hoop_reduce(r->in, r->out, n, HOOP_FLOAT32, HOOP_SUM, 0, r->comm));
        must(r, hoop_gather(r->in, r->out, n, HOOP_FLOAT32, 1, r->comm));
        must(r, hoop_scatter(r->in, r->out, n, HOOP_FLOAT32, 0, r->comm));
        must(r, hoop_alltoall(r->in, r->out, n, HOOP_FLOAT32, r->comm));
        must(r, hoop_alltoall(r->out, r->out, n, HOOP_FLOAT32, r->comm));
        must(r, hoop_barrier(r->comm));
    }
    uneven(r);
}

/* Several in flight; some are waited for, some tested until they are done. */
static void
flocks(room *r)
{
    hoop_work *flock[FLOCK];
    size_t each = MOST / FLOCK;
    for (size_t i = 0; i < FLOCK; i++)
        must(r, hoop_iallreduce(r->in + i * each, r->out + i * each, i % 3 ? each : 50, HOOP_FLOAT32, HOOP_SUM, r->comm,
                                &flock[i]));
    for (int done = 0; !done && r->right;)
        must(r, hoop_work_test(flock[2], &done));
    must(r, hoop_work_wait(flock[0], -1));
    flock[0] = NULL;
    must(r, hoop_wait_all(flock, FLOCK));
}

static atomic_int called;

static void
count_call(void *arg, hoop_result result)
{
    atomic_fetch_add(&called, result == HOOP_SUCCESS);
}

/* Works with functions: some are let go, one of the others is waited for after the other. */
static void
callbacks(room *r)
{
    hoop_work *flock[FLOCK];
    size_t index;
    atomic_store(&called, 0);
    for (size_t i = 0; i < FLOCK; i++) {
        must(r, hoop_iallreduce(r->in + i * 50, r->out + i * 50, 50, HOOP_FLOAT32, HOOP_SUM, r->comm, &flock[i]));
        must(r, hoop_work_on_done(flock[i], count_call, NULL));
        if (i % 2 == 0)
            must(r, hoop_work_free(flock[i]));
        if (i % 2 == 0)
            flock[i] = NULL;
    }
    do
        must(r, hoop_wait_any(flock, FLOCK, -1, &index));
    while (index < FLOCK && r->right);
    must(r, hoop_barrier(r->comm));
    for (tap_wait w = {0}; atomic_load(&called) < FLOCK && tap_waits(&w);)
        usleep(100);
    r->right &= atomic_load(&called) == FLOCK;
}

/* Many small tensors, of two kinds and in an order in which they do not all fuse, and a large one among them. */
static void
tensors(room *r, size_t count)
{
    int32_t *whole = (int32_t *)(r->out + MOST / 2);
    for (size_t i = 0; i < count; i++) {
        must(r, hoop_allreduce(r->in + 300 * i, r->out + 300 * i, 1 + 7 * i, HOOP_FLOAT32, HOOP_SUM, r->comm));
        if (i % 4 == 0)
            must(r, hoop_allreduce(whole + 10 * i, whole + 10 * i, 10, HOOP_INT32, HOOP_MAX, r->comm));
        if (i % 5 == 0) /* large enough to be sent and received where it lies */
            must(r, hoop_allreduce(r->in + MOST / 2 + 2000 * i, r->out + MOST / 4 + 2000 * i, 1900, HOOP_FLOAT32,
                                   HOOP_SUM, r->comm));
        if (i == count / 2)
            must(r, hoop_allreduce(r->in + MOST / 4, r->out + MOST / 4, MOST / 5, HOOP_FLOAT32, HOOP_SUM, r->comm));
    }
}

static void
groups(room *r)
{
    hoop_work *work = NULL;
    must(r, hoop_group_start(r->comm));
    tensors(r, TENSORS);
    must(r, hoop_group_end(r->comm));
    must(r, hoop_group_start(r->comm));
    tensors(r, TENSORS / 4);
    must(r, hoop_igroup_end(r->comm, &work));
    must(r, hoop_work_wait(work, -1));
    must(r, hoop_group_start(r->comm));
    must(r, hoop_group_end(r->comm));
}

/* Long enough for reports to the server and back, and for a driver that sleeps. */
static void
lateness(room *r)
{
    if (r->rank == 1)
        usleep(450000);
    must(r, hoop_allreduce(r->in, r->out, 1000, HOOP_FLOAT32, HOOP_SUM, r->comm));
}

/* What is legal to do wrong. */
static void
mistakes(room *r)
{
    hoop_error e = {.size = sizeof(e)};
    hoop_work *work = NULL;
    r->right &= hoop_allreduce(NULL, r->out, 1, HOOP_FLOAT32, HOOP_SUM, r->comm) == HOOP_ERR_INVALID_ARGUMENT;
    r->right &= hoop_iallreduce(r->in, r->out, 1, (hoop_dtype)99, HOOP_SUM, r->comm, &work) != HOOP_SUCCESS;
    must(r, hoop_comm_error(r->comm, &e));
}

typedef void scene_fn(room *r);
static const struct {
    const char *name;
    scene_fn *fn;
    int warm, counted;
} scenes[] = {{"allreduces", allreduces, WARM, COUNTED},
              {"the other collectives", others, WARM, COUNTED},
              {"several in flight", flocks, WARM, COUNTED},
              {"callbacks", callbacks, WARM, COUNTED},
              {"groups", groups, WARM, COUNTED},
              {"mistakes", mistakes, WARM, COUNTED},
              {"a late rank", lateness, 1, 1}};
enum { SCENES = sizeof(scenes) / sizeof(scenes[0]) };

/* 1 when a scene touched memory, which the note then says. */
static int
count(room *r, int scene)
{
    ledger_sums sums;
    ledger_open(0, 0);
    for (int round = 0; round < scenes[scene].counted; round++)
        scenes[scene].fn(r);
    sums = ledger_close();
    if (sums.taken == 0 && sums.given == 0)
        return 0;
    party_note("%s: memory was asked for %lu times and given back %lu times: %s", scenes[scene].name, sums.taken,
               sums.given, ledger_first());
    return 1;
}

static int
steady(int rank, int size, void *arg)
{
    room r = {.rank = rank, .size = size, .right = 1};
    int moved = 0, played = SCENES - (*(int *)arg > 0); /* lateness costs time: once is enough */
    r.in = calloc(MOST, sizeof(*r.in));
    r.out = calloc(MOST, sizeof(*r.out));
    if (!r.in || !r.out || hoop_comm_create(&r.comm, NULL) != HOOP_SUCCESS)
        return 2;
    for (int s = 0; s < played; s++)
        for (int round = 0; round < scenes[s].warm; round++)
            scenes[s].fn(&r);
    for (int s = 0; s < played && !moved; s++) {
        moved = count(&r, s);
        must(&r, hoop_barrier(r.comm));
    }
    must(&r, hoop_comm_destroy(r.comm));
    free(r.in);
    free(r.out);
    return moved || !r.right;
}

static void
ledger_works(void)
{
    ledger_sums sums;
    void *volatile memory;
    long before = ledger_alive();
    ledger_open(2, 0);
    memory = malloc(10);
    is_int(before + 1, ledger_alive(), "the ledger knows what is alive");
    free(memory);
    ok(!calloc(1, 1) && (memory = strdup("x")), "the ledger fails the second allocation and no other");
    free(memory);
    sums = ledger_close();
    ok(sums.taken == 3 && sums.given == 2 && sums.failed && ledger_alive() == before, "the ledger counts, strdup too");
}

int
main(void)
{
    static const struct {
        const char *name, *value, *what;
    } with[] = {{"HOOP_CHECKSUM", "headers", "as it comes"},
                {"HOOP_STRIPES", "3", "three stripes"},
                {"HOOP_CHANNELS", "2", "two channels"},
                {"HOOP_CHECKSUM", "payload", "checksums"}};
    party p;
    tap_limit(240);
    plan_lazy();
    ledger_works();
    party_open(&p);
    for (int i = 0; i < (int)(sizeof(with) / sizeof(with[0])); i++) {
        setenv(with[i].name, with[i].value, 1);
        for (int size = 2; size <= 4; size += 2)
            is_int(0, party_run(&p, size, steady, &i, 60), "%d ranks, %s: warm calls neither ask for memory nor free",
                   size, with[i].what);
        unsetenv(with[i].name);
    }
    party_close(&p);
    return 0;
}
