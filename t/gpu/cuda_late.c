/* SPDX-License-Identifier: MIT */
/*
 * Late streams, on the stand-in driver: when a rank makes the call, its stream is still busy with other work of the
 * caller's. No rank's operation completes before that stream reaches the call, not even a barrier, which moves nothing.
 * A job that is aborted, or loses a rank, still ends at once. The time limit does not count the stream's time. And a GPU
 * that is late itself.
 */
#include "t/gpu/cuda_rank.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 30000, SHORT_MS = 5000, DIES = 10 };

static hp_gate *foreign; /* the test's, before the caller's stream, as a long kernel of the caller's would be */

static int
hold(cuda_rank *r)
{
    hoop_error error = {.size = sizeof(error)};
    return r->device->ops->gate_close(r->device, r->stream[0], &foreign, &error) != HOOP_SUCCESS;
}

static void
let_go(cuda_rank *r)
{
    if (foreign)
        r->device->ops->gate_open(foreign);
    foreign = NULL;
}

/* Blocks rank 0's stream, or all streams. */
static int
begin(cuda_rank *r, int all)
{
    cuda_rank_fill(r, COUNT);
    return cuda_rank_streams(r, 1, 0) || cuda_rank_sum(r, COUNT) || ((all || r->rank == 0) && hold(r));
}

/* --- order --- */

/* The n-th call of the row. Each of them completes on no rank before all ranks' streams have reached it. */
static int
call(cuda_rank *r, int n)
{
    void *in = r->in.memory, *out = r->out.memory;
    if (n == 1 || n == 2)
        return cuda_rank_sum_on(r, n == 1 ? 0 : COUNT, r->stream[0]);
    hoop_result result = n == 0 ? hoop_barrier_on_stream(r->comm, r->stream[0])
                                : hoop_broadcast_on_stream(in, out, COUNT, HOOP_INT32, 0, r->comm, r->stream[0]);
    return result != HOOP_SUCCESS ? cuda_rank_complain("on_stream") : 0;
}

/* Behind the call every rank's stream copies a word; that must not happen before rank 0's stream goes on. */
static int
passes_early(cuda_rank *r, int n)
{
    arena from = arena_new(r->device, ARENA_DEVICE, 4096), to = arena_new(r->device, ARENA_SLOT, 4096);
    memset(to.memory, 7, 4096);
    arena_put(&from, to.memory, 4096);
    memset(to.memory, 0, 4096);
    int bad = call(r, n) || cuda_rank_copy(r, r->stream[0], to.memory, from.memory, 4096);
    usleep(300000);
    if (!bad && to.memory[4095] != 0) {
        party_note("call %d: the stream has passed", n);
        bad = 1;
    }
    party_mark();
    if (foreign) /* the others have looked */
        party_await_marks(r->size * (n + 1));
    let_go(r);
    bad |= cuda_rank_wait(r, r->stream[0]) || to.memory[4095] != 7;
    arena_free(&from);
    arena_free(&to);
    return bad;
}

static int
in_order(cuda_rank *r)
{
    int bad = begin(r, 0);
    for (int n = 0; n < 4 && !bad; n++) {
        bad = passes_early(r, n);
        /* from here on all ranks are together again */
        if (!bad && hoop_barrier(r->comm) != HOOP_SUCCESS)
            bad = cuda_rank_complain("barrier");
        bad = bad || (r->rank == 0 && n < 3 && hold(r));
    }
    let_go(r);
    return bad;
}

/* --- the end while a stream is held --- */

/* how: the rank that aborts: 0, whose stream is blocked, or another; plus DIES: the rank that dies instead. */
static int
given_up(cuda_rank *r)
{
    int who = r->how % DIES, bad = begin(r, 0);
    for (int n = 2; n >= 0 && !bad; n--)
        bad = call(r, n);
    usleep(200000);
    double start = party_clock();
    if (r->rank == who && r->how >= DIES)
        raise(SIGKILL);
    if (r->rank == who && hoop_comm_abort(r->comm, "enough") != HOOP_SUCCESS)
        bad = cuda_rank_complain("abort");
    hoop_error error = cuda_rank_failure(r);
    if (error.code == HOOP_SUCCESS || error.rank != who) {
        party_note("error %d of rank %d: %s", (int)error.code, error.rank, error.text);
        bad = 1;
    }
    bad = bad || cuda_rank_took_longer(start, 1, "the error");
    hoop_comm_destroy(r->comm);
    r->comm = NULL;
    bad = bad || cuda_rank_took_longer(start, 1.5, "the end");
    if (foreign)
        usleep(100000); /* the stream was blocked to the end and longer */
    let_go(r);
    return cuda_rank_wait(r, r->stream[0]) || bad;
}

/* --- time --- */

/* All streams are busy for much longer than the time limit before they reach the call. */
static int
patient(cuda_rank *r)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_stats stats = {.size = sizeof(stats)};
    int bad = begin(r, 1) || call(r, 2) || call(r, 0);
    usleep((SHORT_MS + 1500) * 1000);
    let_go(r);
    bad = bad || cuda_rank_wait(r, r->stream[0]);
    hoop_comm_error(r->comm, &error);
    if (error.code != HOOP_SUCCESS) {
        party_note("error %d: %s", (int)error.code, error.text);
        bad = 1;
    }
    if (hoop_comm_stats(r->comm, &stats) != HOOP_SUCCESS || stats.waited_stream_ns < SHORT_MS * UINT64_C(1000000)) {
        party_note("waited for the stream for %.3f s", (double)stats.waited_stream_ns / 1e9);
        bad = 1;
    }
    return bad;
}

/* One stream does not reach the call in time: its rank is blamed. */
static int
blamed(cuda_rank *r)
{
    int bad = begin(r, 0) || call(r, 2);
    cuda_rank_failure(r);
    bad = bad || !cuda_rank_failed_so(r, HOOP_ERR_TIMEOUT, 0, "and its program's stream has not reached it");
    let_go(r);
    cuda_rank_wait(r, r->stream[0]);
    return bad;
}

/* Rank 0's GPU is slow: it waits for its own reductions and copies, and says so. */
static int
slow_device(cuda_rank *r)
{
    hoop_stats stats = {.size = sizeof(stats)};
    int bad = cuda_rank_streams(r, 0, r->rank == 0 ? 20000 : 0);
    for (int i = 0; i < 10 && !bad; i++)
        bad = cuda_rank_sum(r, COUNT);
    if (!bad && (hoop_comm_stats(r->comm, &stats) != HOOP_SUCCESS ||
                 (r->rank == 0 && stats.waited_reduction_ns < UINT64_C(1000000)))) {
        party_note("waited for its GPU for %.6f s", (double)stats.waited_reduction_ns / 1e9);
        bad = 1;
    }
    r->fake->delay(0);
    return bad;
}

int
main(void)
{
    char limit[16];
    party p;
    tap_limit(240);
    plan_lazy();
    party_open(&p);
    for (int size = 2; size <= 3; size++)
        cuda_rank_party(&p, size, in_order, 0, "no stream passes a call that another has not come to, a barrier's too");
    cuda_rank_party(&p, 3, given_up, 0,
                    "a rank aborts whose stream is held: all is over at once, and the stream goes on later");
    cuda_rank_party(&p, 3, given_up, 1, "another rank aborts");
    is_int(1, cuda_rank_run(&p, 3, given_up, DIES + 1), "another rank dies");
    cuda_rank_party(&p, 3, slow_device, 0, "a slow GPU is what its rank has waited for");
    snprintf(limit, sizeof(limit), "%d", SHORT_MS);
    setenv("HOOP_OP_TIMEOUT_MS", limit, 1);
    cuda_rank_party(&p, 3, patient, 0,
                    "streams that are all busy for longer than the time limit before the call are no error");
    cuda_rank_party(&p, 3, blamed, 0, "the rank whose stream alone does not come is blamed, and the reason is given");
    party_close(&p);
    return 0;
}
