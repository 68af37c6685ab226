/* SPDX-License-Identifier: MIT */
/*
 * Rings whose arrays are in device memory, on the stand-in driver: every collective gives the bits it gives in host
 * memory (F73), also with one side in device and one in host memory; stream-ordered calls keep their stream's order
 * without the host; and when a rank's driver fails (F62) that rank gets HOOP_ERR_CUDA and the others learn who it was.
 */
#include "t/gpu/cuda_test.h"
#include "t/tools/party.h"

#include "lib/base/dtype.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 8 * 1024 * 1024 }; /* bytes of a buffer */

typedef struct rank {
    int rank, size;
    const hoop_fake_cuda *fake;
    hoop_comm *comm;
    hp_device *device;
    arena in, out;          /* on the GPU */
    char *data, *to, *seen; /* the same on the host: input, result there, the GPU's result */
} rank;

static int
complain(const char *what)
{
    hoop_error error = {.size = sizeof error};

    hoop_comm_error(NULL, &error);
    party_note("%s: %s", what, error.text);
    return 1;
}

static int
enter(rank *r, int number, int size)
{
    *r = (rank){.rank = number, .size = size, .fake = cuda_test_driver()};
    if (hoop_comm_create(&r->comm, NULL) != HOOP_SUCCESS)
        return complain("create");
    r->device = cuda_test_open();
    r->in = arena_new(r->device, ARENA_DEVICE, MOST);
    r->out = arena_new(r->device, ARENA_DEVICE, MOST);
    r->data = malloc(MOST);
    r->to = malloc(MOST);
    r->seen = malloc(MOST);
    return r->data == NULL || r->to == NULL || r->seen == NULL;
}

static int
leave(rank *r)
{
    hoop_result result = hoop_comm_destroy(r->comm);

    arena_free(&r->in);
    arena_free(&r->out);
    r->device->ops->close(r->device);
    free(r->data);
    free(r->to);
    free(r->seen);
    if (result == HOOP_SUCCESS && r->fake != NULL && r->fake->live() != 0)
        party_note("%ld driver objects are left", r->fake->live());
    return result == HOOP_SUCCESS && r->fake != NULL && r->fake->live() != 0;
}

/* --- collectives -------------------------------------------------------------------------------------------------- */

typedef enum kind { ALLREDUCE, REDUCE_SCATTER, ALLGATHER, BROADCAST, REDUCE, GATHER, SCATTER, ALLTOALL, KINDS } kind;

static const char *const kind_names[] = {"allreduce", "reduce_scatter", "allgather", "broadcast",
                                         "reduce",    "gather",         "scatter",   "alltoall"};

static hoop_result
call(kind k, const void *from, void *to, size_t count, hoop_dtype dtype, hoop_op op, hoop_comm *comm)
{
    int root = hoop_comm_size(comm) - 1;

    switch (k) {
    case ALLREDUCE: return hoop_allreduce(from, to, count, dtype, op, comm);
    case REDUCE_SCATTER: return hoop_reduce_scatter(from, to, count, dtype, op, comm);
    case ALLGATHER: return hoop_allgather(from, to, count, dtype, comm);
    case BROADCAST: return hoop_broadcast(from, to, count, dtype, root, comm);
    case REDUCE: return hoop_reduce(from, to, count, dtype, op, root, comm);
    case GATHER: return hoop_gather(from, to, count, dtype, root, comm);
    case SCATTER: return hoop_scatter(from, to, count, dtype, root, comm);
    default: return hoop_alltoall(from, to, count, dtype, comm);
    }
}

static void
fill(rank *r, hoop_dtype dtype, size_t bytes)
{
    uint32_t state = (uint32_t)(r->rank * 7919 + 17);

    for (size_t i = 0; i < bytes; i++) {
        state = state * 1664525 + 1013904223;
        r->data[i] = (char)(state >> 24);
    }
    if (dtype == HOOP_FLOAT32) { /* sums that round differently in another order */
        for (size_t i = 0; i + 4 <= bytes; i += 4) {
            float f = (float)r->data[i] * 0.37f + (float)r->data[i + 1] * 1e-4f;
            memcpy(r->data + i, &f, 4);
        }
    }
}

/* Where the call's arrays are: 0 both on the GPU, 1 from the host, 2 to the host, 3 in place on the GPU. */
static int
compare(rank *r, kind k, size_t count, hoop_dtype dtype, hoop_op op, int where)
{
    size_t size = (size_t)r->size, bytes = count * hp_dtype_size(dtype) * size;
    const void *from = where == 1 ? (const void *)r->data : r->in.memory;
    void *to = where == 2 ? (void *)r->seen : where == 3 ? (void *)r->in.memory : r->out.memory;

    fill(r, dtype, bytes);
    memset(r->to, 0, bytes);
    memset(r->seen, 0, bytes);
    arena_put(&r->in, r->data, bytes);
    arena_put(&r->out, r->seen, bytes);
    memcpy(r->to, where == 3 ? r->data : r->to, bytes);
    if (call(k, where == 3 ? r->to : r->data, r->to, count, dtype, op, r->comm) != HOOP_SUCCESS)
        return complain(kind_names[k]);
    if (call(k, from, to, count, dtype, op, r->comm) != HOOP_SUCCESS)
        return complain(kind_names[k]);
    if (where != 2)
        arena_get(where == 3 ? &r->in : &r->out, r->seen, bytes);
    if (cuda_test_same(dtype, op, r->to, r->seen, count * size))
        return 0;
    party_note("%s of %zu %s %s, placed %d: other bits than in host memory", kind_names[k], count, hp_dtype_name(dtype),
               hp_op_name(op), where);
    return 1;
}

static int
collectives(int number, int size, void *arg)
{
    static const size_t counts[] = {0, 1, 7, 1000, 50021};
    static const hoop_dtype dtypes[] = {HOOP_FLOAT32, HOOP_BFLOAT16, HOOP_INT8, HOOP_FLOAT64};
    rank r;
    int bad = enter(&r, number, size);

    (void)arg;
    for (int k = 0; k < KINDS && !bad; k++) {
        for (size_t i = 0; i < sizeof counts / sizeof *counts && !bad; i++) {
            int in_place = k == ALLREDUCE || k == BROADCAST || k == REDUCE || k == ALLTOALL;
            for (int where = 0; where < 3 + in_place && !bad; where++)
                bad = compare(&r, (kind)k, counts[i], dtypes[(i + (size_t)k) % 4], (hoop_op)((i + (size_t)where) % 5),
                              where);
        }
    }
    if (!bad)
        bad = compare(&r, ALLREDUCE, MOST / 4 / (size_t)size, HOOP_FLOAT32, HOOP_AVG, 0);
    return leave(&r) || bad;
}

/* --- streams ------------------------------------------------------------------------------------------------------ */

/*
 * in += over all ranks, three times on one stream, each a call whose input the one before makes; between them the
 * stream itself copies. The host only looks at the end.
 */
static int
chain(rank *r, void *stream, size_t count)
{
    hoop_error error = {.size = sizeof error};
    size_t bytes = count * sizeof(int32_t);
    int32_t *values = (int32_t *)(void *)r->seen;

    for (int step = 0; step < 3; step++) {
        if (hoop_allreduce_on_stream(r->in.memory, r->out.memory, count, HOOP_INT32, HOOP_SUM, r->comm, stream) !=
            HOOP_SUCCESS)
            return complain("on_stream");
        if (hoop_barrier_on_stream(r->comm, stream) != HOOP_SUCCESS)
            return complain("barrier on_stream");
        if (hp_cuda_stream_copy(r->device, stream, r->in.memory, r->out.memory, bytes, &error) != HOOP_SUCCESS)
            return 1;
    }
    if (hp_cuda_stream_wait(r->device, stream, &error) != HOOP_SUCCESS)
        return 1;
    arena_get(&r->out, values, bytes);
    int32_t wanted = r->size * (r->size + 1) / 2 * r->size * r->size;
    for (size_t i = 0; i < count; i++) {
        if (values[i] != wanted) {
            party_note("element %zu of %zu is %d, not %d", i, count, values[i], wanted);
            return 1;
        }
    }
    return 0;
}

/* Calls without a stream start after what the default stream holds: here a copy that makes their input. A group too. */
static int
after_default_stream(rank *r, size_t count)
{
    hoop_error error = {.size = sizeof error};
    size_t bytes = count * sizeof(int32_t);
    int32_t *values = (int32_t *)(void *)r->seen;
    int32_t wanted = r->size * (r->size + 1) / 2;
    char *second = r->out.memory + MOST / 2;

    for (size_t i = 0; i < count; i++)
        values[i] = r->rank + 1;
    arena_put(&r->out, values, bytes);
    for (int round = 0; round < 2; round++) {
        arena_put(&r->in, r->to, bytes); /* other values */
        if (hp_cuda_stream_copy(r->device, NULL, r->in.memory, r->out.memory, bytes, &error) != HOOP_SUCCESS)
            return 1;
        if (round == 1 && hoop_group_start(r->comm) != HOOP_SUCCESS)
            return complain("group");
        if (hoop_allreduce(r->in.memory, second, count, HOOP_INT32, HOOP_SUM, r->comm) != HOOP_SUCCESS ||
            hoop_allreduce(r->in.memory, second + MOST / 4, count, HOOP_INT32, HOOP_SUM, r->comm) != HOOP_SUCCESS)
            return complain("allreduce");
        if (round == 1 && hoop_group_end(r->comm) != HOOP_SUCCESS)
            return complain("group");
        for (size_t half = 0; half < 2; half++) {
            hp_cuda_copy(r->device, r->seen + bytes, second + half * (MOST / 4), bytes, &error);
            if (values[count] != wanted || values[2 * count - 1] != wanted) {
                party_note("round %d of %zu: %d, not %d", round, count, values[count], wanted);
                return 1;
            }
        }
    }
    return 0;
}

static int
streams(int number, int size, void *arg)
{
    hoop_error error = {.size = sizeof error};
    static const size_t counts[] = {1, 1000, 100003};
    void *stream = NULL;
    rank r;
    int bad = enter(&r, number, size);

    (void)arg;
    if (!bad && r.fake != NULL) {
        r.fake->delay(200);
        r.fake->jealous(1);
    }
    memset(r.to, 0, MOST);
    for (int round = 0; round < 6 && !bad; round++) {
        size_t count = counts[round % 3];
        int32_t *values = (int32_t *)(void *)r.seen;
        for (size_t i = 0; i < count; i++)
            values[i] = number + 1;
        arena_put(&r.in, values, count * sizeof *values);
        bad = hp_cuda_stream_open(r.device, &stream, &error) != HOOP_SUCCESS || chain(&r, stream, count);
        hp_cuda_stream_close(r.device, stream);
        bad = bad || after_default_stream(&r, count);
    }
    return leave(&r) || bad;
}

/*
 * The first use of the GPU finds a long operation on host memory under way: the background thread drives it, and it
 * waits for the last rank. The thread lets the caller have the driver's place in between.
 */
static int
first_use(int number, int size, void *arg)
{
    rank r;
    hoop_work *work = NULL;
    hoop_error error = {.size = sizeof error};
    int bad;

    (void)arg;
    setenv("HOOP_SNDBUF", "65536",
           1); /* full while the last rank is late: the loop must say when there is room again */
    bad = enter(&r, number, size);
    if (bad)
        return 1;
    memset(r.data, 0, MOST);
    if (number == size - 1)
        usleep(300000);
    if (hoop_iallreduce(r.data, r.to, MOST / 4, HOOP_FLOAT32, HOOP_SUM, r.comm, &work) != HOOP_SUCCESS)
        return complain("iallreduce");
    usleep(100000); /* the thread is at it */
    if (hoop_allreduce_on_stream(r.in.memory, r.out.memory, 1000, HOOP_INT32, HOOP_SUM, r.comm, NULL) != HOOP_SUCCESS)
        return complain("on_stream");
    bad = hoop_work_wait(work, -1) != HOOP_SUCCESS || hp_cuda_stream_wait(r.device, NULL, &error) != HOOP_SUCCESS;
    return leave(&r) || bad;
}

/* --- failures ----------------------------------------------------------------------------------------------------- */

/* A stream that waits for an operation is let go when the operation fails. */
static hoop_result
work_until_error(rank *r)
{
    hoop_result result = HOOP_SUCCESS;
    hoop_error error = {.size = sizeof error};

    for (int i = 0; i < 3 && result == HOOP_SUCCESS; i++) {
        result = hoop_allreduce_on_stream(r->in.memory, r->out.memory, 20000, HOOP_FLOAT32, HOOP_SUM, r->comm, NULL);
        if (result == HOOP_SUCCESS)
            result = hoop_allreduce(r->in.memory, r->out.memory, 100, HOOP_FLOAT32, HOOP_SUM, r->comm);
    }
    hp_cuda_stream_wait(r->device, NULL, &error);
    return result;
}

/* Rank 0's driver fails at the given call. Everybody ends within seconds, and the others name rank 0. */
static int
failures(int number, int size, void *arg)
{
    long fail_at = *(long *)arg;
    hoop_error error = {.size = sizeof error};
    rank r;
    int bad = enter(&r, number, size);

    memset(r.seen, 0, MOST);
    arena_put(&r.in, r.seen, MOST);
    if (!bad && number == 0)
        r.fake->fail(fail_at, 0);
    hoop_result result = work_until_error(&r);
    const char *failed = number == 0 ? r.fake->failed() : NULL;
    r.fake->fail(0, 0);
    if (result == HOOP_SUCCESS)
        result = hoop_barrier(r.comm); /* an error may come after the last result */
    hoop_comm_error(r.comm, &error);
    double hurt = party_clock();
    party_note("%.3f %d %d %s | %s", hurt, (int)result, error.rank, failed != NULL ? failed : "-", error.text);
    leave(&r);
    return bad;
}

static int
judge(const party *p, long k)
{
    double when[8];
    int code[8], culprit[8], bad = 0;
    char call[8][64];

    for (int i = 0; i < p->size; i++) {
        if (sscanf(p->guest[i].note, "%lf %d %d %63s", &when[i], &code[i], &culprit[i], call[i]) != 4) {
            diag("call %ld, rank %d: %s", k, i, p->guest[i].note);
            return 0;
        }
    }
    if (strcmp(call[0], "-") == 0)
        return -1; /* past the last call */
    for (int i = 0; i < p->size; i++) {
        /* a failure to let go of something is nobody's error */
        int fine = code[0] == HOOP_SUCCESS ? code[i] == HOOP_SUCCESS
                   : i == 0                ? code[i] == HOOP_ERR_CUDA
                                           : code[i] == HOOP_ERR_ABORTED && culprit[i] == 0 && when[i] - when[0] < 1.5;
        if (!fine)
            diag("call %ld (%s), rank %d: %s", k, call[0], i, p->guest[i].note);
        bad += !fine;
    }
    return bad == 0;
}

static void
test_failures(party *p)
{
    int full = getenv("HOOP_TEST_FULL") != NULL, good = 1, rounds = 0;

    for (long k = 1; k < 1000 && good == 1; k += full ? 1 : 1 + (long)(tap_random() % 23)) {
        int ended = party_run(p, 3, failures, &k, 30);
        good = ended == 0 ? judge(p, k) : 0;
        for (int i = 0; i < 3 && ended != 0; i++)
            diag("call %ld, rank %d, status %d: %s", k, i, p->guest[i].status, p->guest[i].note);
        rounds++;
    }
    ok(good != 0, "F62: the k-th driver call of rank 0 fails: HOOP_ERR_CUDA there, and named elsewhere (%d k)", rounds);
}

static void
run(party *p, int size, party_fn *fn, const char *what)
{
    int bad = party_run(p, size, fn, NULL, 60);

    ok(bad == 0, "%d ranks: %s", size, what);
    for (int i = 0; i < size && bad != 0; i++) {
        if (p->guest[i].status != 0)
            diag("rank %d, status %#x: %s", i, (unsigned)p->guest[i].status, p->guest[i].note);
    }
}

int
main(void)
{
    party p;

    tap_limit(240);
    plan_lazy();
    party_open(&p);
    for (int size = 1; size <= 4; size++)
        run(&p, size, collectives, "collectives on device memory have the bits of those on host memory");
    for (int size = 1; size <= 4; size++)
        run(&p, size, streams, "stream-ordered calls keep the stream's order");
    run(&p, 3, first_use, "the GPU's first use does not wait for ever behind an operation under way");
    if (getenv("HOOP_TEST_CUDA") == NULL)
        test_failures(&p);
    else
        skip(1, "a real driver does not fail on demand");
    party_close(&p);
    return 0;
}
