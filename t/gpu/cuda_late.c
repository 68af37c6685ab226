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

/* A rank with a stream that a gate of the test's blocks, as a long kernel of the caller's would. */
typedef struct late {
    cuda_rank r;
    void *stream;
    hp_gate *foreign;
} late;

static int
hold(late *l)
{
    hoop_error error = {.size = sizeof(error)};
    return l->r.device->ops->gate_close(l->r.device, l->stream, &l->foreign, &error) != HOOP_SUCCESS;
}

static void
let_go(late *l)
{
    if (l->foreign)
        l->r.device->ops->gate_open(l->foreign);
    l->foreign = NULL;
}

/* Blocks rank 0's stream, or all streams. */
static int
begin(late *l, int number, int size, int all)
{
    hoop_error error = {.size = sizeof(error)};
    int32_t values[COUNT];
    *l = (late){0};
    int bad = cuda_rank_enter(&l->r, number, size);
    for (int i = 0; i < COUNT; i++)
        values[i] = number + 1;
    arena_put(&l->r.in, values, sizeof(values));
    bad = bad || hp_cuda_stream_open(l->r.device, &l->stream, &error) != HOOP_SUCCESS;
    if (!bad && hoop_allreduce(l->r.in.memory, l->r.out.memory, COUNT, HOOP_INT32, HOOP_SUM, l->r.comm) != HOOP_SUCCESS)
        bad = cuda_rank_complain("allreduce");
    return bad || ((all || number == 0) && hold(l));
}

static int
end(late *l)
{
    let_go(l);
    hp_cuda_stream_close(l->r.device, l->stream);
    return cuda_rank_leave(&l->r);
}

/* --- order --- */

/* The n-th call of the row. Each of them completes on no rank before all ranks' streams have reached it. */
static hoop_result
call(late *l, int n, size_t count)
{
    void *in = l->r.in.memory, *out = l->r.out.memory;
    return n == 0   ? hoop_barrier_on_stream(l->r.comm, l->stream)
           : n == 1 ? hoop_allreduce_on_stream(in, out, 0, HOOP_INT32, HOOP_SUM, l->r.comm, l->stream)
           : n == 2 ? hoop_allreduce_on_stream(in, out, count, HOOP_INT32, HOOP_SUM, l->r.comm, l->stream)
                    : hoop_broadcast_on_stream(in, out, count, HOOP_INT32, 0, l->r.comm, l->stream);
}

/* Behind the call every rank's stream copies a word; that must not happen before rank 0's stream goes on. */
static int
passes_early(late *l, int n)
{
    hoop_error error = {.size = sizeof(error)};
    arena from = arena_new(l->r.device, ARENA_DEVICE, 4096), to = arena_new(l->r.device, ARENA_SLOT, 4096);
    memset(to.memory, 7, 4096);
    arena_put(&from, to.memory, 4096);
    memset(to.memory, 0, 4096);
    int bad = call(l, n, COUNT) != HOOP_SUCCESS && cuda_rank_complain("on_stream");
    bad = bad || hp_cuda_stream_copy(l->r.device, l->stream, to.memory, from.memory, 4096, &error) != HOOP_SUCCESS;
    usleep(300000);
    if (!bad && to.memory[4095] != 0) {
        party_note("call %d: the stream has passed", n);
        bad = 1;
    }
    party_mark();
    if (l->foreign) /* the others have looked */
        party_await_marks(hoop_comm_size(l->r.comm) * (n + 1));
    let_go(l);
    bad |= hp_cuda_stream_wait(l->r.device, l->stream, &error) != HOOP_SUCCESS || to.memory[4095] != 7;
    arena_free(&from);
    arena_free(&to);
    return bad;
}

static int
in_order(int number, int size, void *arg)
{
    late l;
    int bad = begin(&l, number, size, 0);
    (void)arg;
    for (int n = 0; n < 4 && !bad; n++) {
        bad = passes_early(&l, n);
        /* from here on all ranks are together again */
        if (!bad && hoop_barrier(l.r.comm) != HOOP_SUCCESS)
            bad = cuda_rank_complain("barrier");
        bad = bad || (number == 0 && n < 3 && hold(&l));
    }
    return end(&l) || bad;
}

/* --- the end while a stream is held --- */

/* Waits for the communicator to fail, a second from `start`, or what that may take beside other tests. */
static int
fails_soon(late *l, double start, int who)
{
    hoop_error error = {.size = sizeof(error)};
    while (hoop_comm_error(l->r.comm, &error) == HOOP_SUCCESS && error.code == HOOP_SUCCESS &&
           party_clock() < start + 1 + tap_room())
        usleep(1000);
    if (error.code != HOOP_SUCCESS && error.rank == who)
        return 1;
    party_note("after %.3f s error %d of rank %d: %s", party_clock() - start, (int)error.code, error.rank, error.text);
    return 0;
}

/* *arg: the rank that aborts: 0, whose stream is blocked, or another; plus DIES: the rank that dies instead. */
static int
given_up(int number, int size, void *arg)
{
    int who = *(int *)arg % DIES, dies = *(int *)arg >= DIES;
    hoop_error error = {.size = sizeof(error)};
    late l;
    int bad = begin(&l, number, size, 0);
    for (int n = 0; n < 3 && !bad; n++)
        bad = call(&l, 2 - n, COUNT) != HOOP_SUCCESS && cuda_rank_complain("on_stream");
    usleep(200000);
    double start = party_clock();
    if (number == who && dies)
        raise(SIGKILL);
    if (number == who && hoop_comm_abort(l.r.comm, "enough") != HOOP_SUCCESS)
        bad = cuda_rank_complain("abort");
    bad = bad || !fails_soon(&l, start, who);
    hoop_comm_destroy(l.r.comm);
    l.r.comm = NULL;
    double lasted = party_clock() - start;
    if (!bad && lasted > 1.5 + tap_room()) {
        party_note("the end took %.3f s", lasted);
        bad = 1;
    }
    if (l.foreign)
        usleep(100000); /* the stream was blocked to the end and longer */
    let_go(&l);
    bad |= hp_cuda_stream_wait(l.r.device, l.stream, &error) != HOOP_SUCCESS;
    if (bad && error.code != HOOP_SUCCESS)
        party_note("the stream: %s", error.text);
    hp_cuda_stream_close(l.r.device, l.stream);
    arena_free(&l.r.in);
    arena_free(&l.r.out);
    l.r.device->ops->close(l.r.device);
    free(l.r.data);
    free(l.r.to);
    free(l.r.seen);
    return bad;
}

/* --- time --- */

/* All streams are busy for much longer than the time limit before they reach the call. */
static int
patient(int number, int size, void *arg)
{
    hoop_error error = {.size = sizeof(error)};
    late l;
    int bad = begin(&l, number, size, 1);
    (void)arg;
    bad = bad || (call(&l, 2, COUNT) != HOOP_SUCCESS && cuda_rank_complain("on_stream"));
    bad = bad || (call(&l, 0, 0) != HOOP_SUCCESS && cuda_rank_complain("on_stream"));
    usleep((SHORT_MS + 1500) * 1000);
    let_go(&l);
    bad = bad || hp_cuda_stream_wait(l.r.device, l.stream, &error) != HOOP_SUCCESS;
    hoop_comm_error(l.r.comm, &error);
    if (error.code != HOOP_SUCCESS) {
        party_note("error %d: %s", (int)error.code, error.text);
        bad = 1;
    }
    hoop_stats stats = {.size = sizeof(stats)};
    if (hoop_comm_stats(l.r.comm, &stats) != HOOP_SUCCESS || stats.waited_stream_ns < SHORT_MS * UINT64_C(1000000)) {
        party_note("waited for the stream for %.3f s", (double)stats.waited_stream_ns / 1e9);
        bad = 1;
    }
    return end(&l) || bad;
}

/* One stream does not reach the call in time: its rank is blamed. */
static int
blamed(int number, int size, void *arg)
{
    hoop_error error = {.size = sizeof(error)};
    late l;
    int bad = begin(&l, number, size, 0);
    (void)arg;
    bad = bad || (call(&l, 2, COUNT) != HOOP_SUCCESS && cuda_rank_complain("on_stream"));
    for (tap_wait w = {0};
         !bad && hoop_comm_error(l.r.comm, &error) == HOOP_SUCCESS && error.code == HOOP_SUCCESS && tap_waits(&w);)
        usleep(1000);
    if (!bad && (error.code != HOOP_ERR_TIMEOUT || error.rank != 0 ||
                 !strstr(error.text, "and its program's stream has not reached it"))) {
        party_note("error %d of rank %d: %s", (int)error.code, error.rank, error.text);
        bad = 1;
    }
    let_go(&l);
    hp_cuda_stream_wait(l.r.device, l.stream, &error);
    end(&l);
    return bad;
}

/* Rank 0's GPU is slow: it waits for its own reductions and copies, and says so. */
static int
slow_device(int number, int size, void *arg)
{
    cuda_rank r;
    hoop_stats stats = {.size = sizeof(stats)};
    int bad = cuda_rank_enter(&r, number, size);
    (void)arg;
    if (!bad && number == 0)
        r.fake->delay(20000);
    for (int i = 0; i < 10 && !bad; i++)
        if (hoop_allreduce(r.in.memory, r.out.memory, COUNT, HOOP_INT32, HOOP_SUM, r.comm) != HOOP_SUCCESS)
            bad = cuda_rank_complain("allreduce");
    if (!bad && (hoop_comm_stats(r.comm, &stats) != HOOP_SUCCESS ||
                 (number == 0 && stats.waited_reduction_ns < UINT64_C(1000000)))) {
        party_note("waited for its GPU for %.6f s", (double)stats.waited_reduction_ns / 1e9);
        bad = 1;
    }
    r.fake->delay(0);
    return cuda_rank_leave(&r) || bad;
}

static void
run(party *p, party_fn *fn, int how, const char *what)
{
    int bad = 0;
    party_run(p, 3, fn, &how, 60);
    for (int i = 0; i < 3; i++)
        bad += p->guest[i].status != (how == DIES + i ? SIGKILL : 0);
    ok(bad == 0, "%s", what);
    for (int i = 0; i < 3 && bad != 0; i++)
        diag("rank %d, status %#x: %s", i, (unsigned)p->guest[i].status, p->guest[i].note);
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
        cuda_rank_party(&p, size, in_order, "no stream passes a call that another has not come to, a barrier's too");
    run(&p, given_up, 0, "a rank aborts whose stream is held: all is over at once, and the stream goes on later");
    run(&p, given_up, 1, "another rank aborts");
    run(&p, given_up, DIES + 1, "another rank dies");
    run(&p, slow_device, 0, "a slow GPU is what its rank has waited for");
    snprintf(limit, sizeof(limit), "%d", SHORT_MS);
    setenv("HOOP_OP_TIMEOUT_MS", limit, 1);
    run(&p, patient, 0, "streams that are all busy for longer than the time limit before the call are no error");
    run(&p, blamed, 0, "the rank whose stream alone does not come is blamed, and the reason is given");
    party_close(&p);
    return 0;
}
