/* SPDX-License-Identifier: MIT */
/*
 * Rings whose arrays are in device memory, on the stand-in driver: every collective gives the same bits as
 * in host memory, also with one array in device and one in host memory. If a rank's driver fails, that rank gets
 * HOOP_ERR_CUDA, and within a second the others get an error that names it. cuda_streams.c tests streams.
 */
#include "base/dtype.h"
#include "t/gpu/cuda_rank.h"
#include "t/sim/forms.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = CUDA_RANK_BYTES };

/* --- collectives --- */

static void
fill(cuda_rank *r, hoop_dtype dtype, size_t bytes)
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
compare(cuda_rank *r, hp_kind k, size_t count, hoop_dtype dtype, hoop_op op, int where)
{
    hp_call c = {.kind = (uint8_t)k, .dtype = (uint8_t)dtype, .op = (uint8_t)op, .root = r->size - 1, .count = count};
    size_t size = (size_t)r->size, bytes = count * hp_dtype_size(dtype) * size;
    const void *from = where == 1 ? (const void *)r->data : r->in.memory;
    void *to = where == 2 ? (void *)r->seen : where == 3 ? (void *)r->in.memory : r->out.memory;
    fill(r, dtype, bytes);
    memset(r->to, 0, bytes);
    memset(r->seen, 0, bytes);
    arena_put(&r->in, r->data, bytes);
    arena_put(&r->out, r->seen, bytes);
    memcpy(r->to, where == 3 ? r->data : r->to, bytes);
    if (sim_call(&c, where == 3 ? r->to : r->data, r->to, r->comm, NULL) != HOOP_SUCCESS)
        return cuda_rank_complain(hp_kind_name(k));
    if (sim_call(&c, from, to, r->comm, NULL) != HOOP_SUCCESS)
        return cuda_rank_complain(hp_kind_name(k));
    if (where != 2)
        arena_get(where == 3 ? &r->in : &r->out, r->seen, bytes);
    if (cuda_test_same(dtype, op, r->to, r->seen, count * size))
        return 0;
    party_note("%s of %zu %s %s, placed %d: other bits than in host memory", hp_kind_name(k), count,
               hp_dtype_name(dtype), hp_op_name(op), where);
    return 1;
}

/* Means of 16- and 8-bit floats: the operands' weights differ at every hop. */
static int
means(cuda_rank *r)
{
    static const size_t counts[] = {1, 7, 1000, 50021};
    static const hp_kind kinds[] = {HP_ALLREDUCE, HP_REDUCE_SCATTER, HP_REDUCE};
    int bad = 0;
    for (size_t i = 0; i < (size_t)HP_NARROW * 12 && !bad; i++)
        bad = compare(r, kinds[i % 3], counts[i / 3 % 4], hp_narrow[i / 12], HOOP_AVG, (int)(i % 3));
    return bad;
}

static int
reduce_with(const cuda_rank *r, const void *from, void *to, void *left, size_t count)
{
    hoop_call_options options = {sizeof(options), HOOP_ORDER_SETTING, HOOP_WIRE_SETTING, left, count};
    hoop_work *work = NULL;
    return hoop_iallreduce_with(from, to, count, HOOP_FLOAT32, HOOP_AVG, r->comm, &options, &work) != HOOP_SUCCESS ||
           hoop_work_wait(work, -1) != HOOP_SUCCESS;
}

/* Three calls with one residual in host memory, and with one in the GPU's: the same results, and the same is left. */
static int
with_residual(cuda_rank *r, size_t count)
{
    static uint8_t left[64 << 10], seen[64 << 10];
    size_t bytes = count * sizeof(float);
    memset(left, 0, sizeof(left));
    arena_put(&r->out, left, 2 * bytes); /* the residual, and behind it the result */
    for (int k = 0; k < 3; k++) {
        fill(r, HOOP_FLOAT32, bytes);
        arena_put(&r->in, r->data, bytes);
        if (reduce_with(r, r->data, r->to, left, count) ||
            reduce_with(r, r->in.memory, r->out.memory + bytes, r->out.memory, count))
            return cuda_rank_complain("with a residual");
        arena_get(&r->out, seen, 2 * bytes);
        if (memcmp(seen, left, bytes) != 0 || memcmp(seen + bytes, r->to, bytes) != 0) {
            party_note("call %d with a residual: other bits on the GPU", k);
            return 1;
        }
    }
    return 0;
}

/*
 * A group whose tensors' ends lie within blocks: in host memory, in the GPU's, and with each rank's tensors where others do
 * not have them.
 */
static int
in_a_group(cuda_rank *r)
{
    enum { TENSORS = 40, LENGTH = 211, BYTES = TENSORS * LENGTH * (int)sizeof(float) };
    static char host[BYTES];
    fill(r, HOOP_FLOAT32, BYTES);
    memset(r->to, 0, BYTES);
    arena_put(&r->in, r->data, BYTES);
    for (int way = 0; way < 3; way++) {
        memset(host, 0, sizeof(host));
        arena_put(&r->out, (uint8_t *)host, BYTES);
        hoop_result result = hoop_group_start(r->comm);
        if (way == 2 && result == HOOP_SUCCESS) /* no tensor at all: nowhere, or in the GPU */
            result = hoop_allreduce(r->rank ? r->in.memory : NULL, r->rank ? r->out.memory : NULL, 0, HOOP_FLOAT32,
                                    HOOP_SUM, r->comm);
        for (size_t i = 0; i < TENSORS && result == HOOP_SUCCESS; i++) { /* apart, backwards */
            size_t at = (TENSORS - 1 - i) * LENGTH * sizeof(float);
            int gpu = way == 2 ? (i + (size_t)r->rank) % 3 > 0 : way;
            result = hoop_allreduce((gpu ? (char *)r->in.memory : (char *)r->data) + at,
                                    (gpu ? (char *)r->out.memory : host) + at, LENGTH - i % 3, HOOP_FLOAT32, HOOP_SUM,
                                    r->comm);
        }
        if (result != HOOP_SUCCESS || hoop_group_end(r->comm) != HOOP_SUCCESS)
            return cuda_rank_complain("in a group");
        arena_get(&r->out, r->seen, BYTES);
        for (size_t i = 0; i < BYTES; i++)
            r->seen[i] = (char)(r->seen[i] | host[i]); /* each byte is 0 in one of the two */
        if (way == 0)
            memcpy(r->to, r->seen, BYTES);
        if (memcmp(r->seen, r->to, BYTES) != 0) {
            party_note("in a group: other bits %s", way == 1 ? "on the GPU" : "where some tensors are on the GPU");
            return 1;
        }
    }
    return 0;
}

/* Sums and means of float32 that travel narrower: the GPU rounds as the host does. */
static int
narrower(cuda_rank *r)
{
    static const size_t counts[] = {1, 7, 1000, 50021};
    int bad = 0;
    for (size_t i = 0; i < 4 * 8 && !bad; i++)
        bad = compare(r, i % 2 ? HP_REDUCE_SCATTER : HP_ALLREDUCE, counts[i / 8], HOOP_FLOAT32,
                      i / 2 % 2 ? HOOP_AVG : HOOP_SUM, (int)(i / 4 % 2) + (int)(i % 2));
    bad = bad || with_residual(r, 1000) || in_a_group(r);
    hoop_stats stats = {.size = sizeof(stats)};
    if (!bad && (hoop_comm_stats(r->comm, &stats) || stats.narrowed != 4 * 8 * 2 + 2 * 3 + 3 * 40 + 1))
        bad = cuda_rank_complain("not narrower");
    return bad;
}

/* The types' operations in turn. */
static hoop_op
op_for(hoop_dtype dtype, int turn)
{
    hoop_op op = hp_op_at(turn % HP_OPS);
    return hp_op_applies(op, dtype) ? op : HOOP_MIN;
}

static int
collectives(cuda_rank *r)
{
    static const size_t counts[] = {0, 1, 7, 1000, 50021};
    enum { DTYPES = 7 };
    static const hoop_dtype dtypes[DTYPES] = {HOOP_FLOAT32, HOOP_BFLOAT16, HOOP_INT8, HOOP_FLOAT64,
                                              HOOP_INT16,   HOOP_UINT16,   HOOP_BOOL};
    int bad = 0;
    for (int k = HP_ALLREDUCE; k <= HP_ALLTOALL && !bad; k++) {
        for (size_t i = 0; i < sizeof(counts) / sizeof(*counts) && !bad; i++) {
            int in_place = k == HP_ALLREDUCE || k == HP_BROADCAST || k == HP_REDUCE || k == HP_ALLTOALL;
            for (int where = 0; where < 3 + in_place && !bad; where++)
                bad = compare(r, (hp_kind)k, counts[i], dtypes[(i + (size_t)k) % DTYPES],
                              op_for(dtypes[(i + (size_t)k) % DTYPES], (int)i + where), where);
        }
    }
    if (!bad)
        bad = compare(r, HP_ALLREDUCE, MOST / 4 / (size_t)r->size, HOOP_FLOAT32, HOOP_AVG, 0);
    return bad || means(r) || in_a_group(r);
}

/* --- the first use --- */

/*
 * The GPU is used for the first time while the background thread drives a long operation on host memory, which waits
 * for the last rank. The background thread must let the caller drive in between.
 */
static int
first_use(cuda_rank *r)
{
    hoop_work *work = NULL;
    hoop_error error = {.size = sizeof(error)};
    if (r->rank == r->size - 1)
        usleep(300000);
    if (hoop_iallreduce(r->data, r->to, MOST / 4, HOOP_FLOAT32, HOOP_SUM, r->comm, &work) != HOOP_SUCCESS)
        return cuda_rank_complain("iallreduce");
    usleep(100000); /* the background thread drives */
    return cuda_rank_sum_on(r, 1000, NULL) || hoop_work_wait(work, -1) != HOOP_SUCCESS || cuda_rank_wait(r, NULL);
}

/* --- failures --- */

/*
 * A stream that waits for an operation goes on when the operation fails. *entered: the start of the last call, which is
 * the one that ends with the error.
 */
static hoop_result
work_until_error(cuda_rank *r, double *entered, int *last)
{
    hoop_result result = HOOP_SUCCESS;
    hoop_error error = {.size = sizeof(error)};
    for (int i = 0; i < 3 && result == HOOP_SUCCESS; i++) {
        *entered = party_clock();
        result = hoop_allreduce_on_stream(r->in.memory, r->out.memory, 20000, HOOP_FLOAT32, HOOP_SUM, r->comm, NULL);
        if (result == HOOP_SUCCESS)
            result = hoop_allreduce(r->in.memory, r->out.memory, 100, HOOP_FLOAT32, HOOP_SUM, r->comm);
    }
    *last = result == HOOP_SUCCESS;
    if (*last) { /* an error may come after the last result */
        *entered = party_clock();
        result = hoop_barrier(r->comm);
    }
    hp_cuda_stream_wait(r->device, NULL, &error);
    return result;
}

/* Rank 0's driver fails at the given call. All ranks end within a second, and the others name rank 0. */
static int
failures(cuda_rank *r)
{
    hoop_error error = {.size = sizeof(error)};
    memset(r->seen, 0, MOST);
    arena_put(&r->in, r->seen, MOST);
    double entered = party_clock();
    int last = 0;
    hoop_result result =
        hoop_barrier(r->comm); /* all ranks are in the ring: before that, other errors would end the test */
    cuda_rank_fault(r);
    if (result == HOOP_SUCCESS)
        result = work_until_error(r, &entered, &last);
    double ended = party_clock();
    const char *failed = r->rank == 0 ? r->fake->failed() : NULL;
    if (failed)
        entered = r->fake->failed_at();
    r->fake->fail(0, 0);
    hoop_comm_error(r->comm, &error);
    party_note("%.3f %.3f %d %d %d %s | %s", entered, ended, (int)result, error.rank, last, failed ? failed : "-",
               error.text);
    return 0;
}

/* What a rank noted: when it entered its last call, or when its driver failed; when and how that call ended. */
typedef struct outcome {
    double from, ended;
    int code, culprit, last; /* last: it was in its last call */
    char call[64];
} outcome;

static int
is_fine(const outcome *o, const outcome *first, int rank)
{
    double from = o->from > first->from
                      ? o->from
                      : first->from; /* a rank that entered the call after the failure has waited only since */
    if (first->code == HOOP_SUCCESS) /* hoop ignores a failure to free */
        return o->code == HOOP_SUCCESS;
    if (rank == 0)
        return o->code == HOOP_ERR_CUDA && o->ended - o->from <= 1 + tap_room();
    if (first->last && o->code == HOOP_SUCCESS) /* it had sent all that the others needed of it */
        return 1;
    return o->code == HOOP_ERR_ABORTED && o->culprit == 0 && o->ended - from <= 1 + tap_room();
}

static int
judge(const party *p, long k)
{
    outcome seen[8] = {{0}};
    int bad = 0;
    for (int i = 0; i < p->size; i++) {
        outcome *o = &seen[i];
        if (sscanf(p->guest[i].note, "%lf %lf %d %d %d %63s", &o->from, &o->ended, &o->code, &o->culprit, &o->last,
                   o->call) != 6) {
            diag("call %ld, rank %d: %s", k, i, p->guest[i].note);
            return 0;
        }
    }
    if (strcmp(seen[0].call, "-") == 0)
        return -1; /* past the last call */
    for (int i = 0; i < p->size; i++) {
        if (is_fine(&seen[i], &seen[0], i))
            continue;
        diag("call %ld (%s at %.3f), rank %d: %s", k, seen[0].call, seen[0].from, i, p->guest[i].note);
        bad++;
    }
    return bad == 0;
}

/* Short hardware queues, or one or two for all streams: blocking calls only wait a little longer. */
static void
test_narrow(party *p)
{
    static const char *const narrow[][2] = {
        {"HOOP_FAKE_CUDA_DEPTH", "4"}, {"HOOP_FAKE_CUDA_CONNECTIONS", "1"}, {"HOOP_FAKE_CUDA_CONNECTIONS", "2"}};
    for (size_t i = 0; i < sizeof(narrow) / sizeof(*narrow); i++) {
        setenv(narrow[i][0], narrow[i][1], 1);
        cuda_rank_party(p, 3, collectives, 0, "... also where hardware queues are short, or shared");
        unsetenv(narrow[i][0]);
    }
}

/* Two ranks a host, the last one alone. arg: the setting wire_dtype, or NULL. */
static int
over_levels(int rank, int size, void *arg)
{
    party_set_host(rank, 2);
    if (!arg)
        return cuda_rank_be(rank, size, collectives, 0);
    setenv("HOOP_WIRE_DTYPE", arg, 1);
    setenv("HOOP_SPREAD_BYTES", "0", 1);
    return cuda_rank_be(rank, size, narrower, 0);
}

static int
by_host(int rank, int size, void *arg)
{
    party_set_host(rank, 2);
    setenv("HOOP_ORDER", "host", 1);
    return cuda_rank_be(rank, size, arg ? means : collectives, 0);
}

/* With an argument: only the collectives, with that many ranks, for a sanitizer. */
int
main(int argc, char **argv)
{
    party p;
    tap_limit(240);
    plan_lazy();
    party_open(&p);
    if (argc > 1) {
        cuda_rank_party(&p, atoi(argv[1]), collectives, 0, "collectives on device memory");
        party_close(&p);
        return 0;
    }
    for (int size = 1; size <= 8; size *= 2)
        cuda_rank_party(&p, size, collectives, 0, "collectives on device memory have the bits of those on host memory");
    cuda_rank_party(&p, 3, collectives, 0, "... also where the ring is no power of two");
    for (int size = 4; size <= 5; size++) {
        char wire[2][10] = {"bfloat16", "e4m3"};
        ok(party_run(&p, size, over_levels, NULL, 60) == 0, "%d ranks: ... also over two levels", size);
        for (int k = 0; k < 2; k++)
            ok(party_run(&p, size, over_levels, wire[k], 60) == 0, "... as %s between hosts", wire[k]);
        ok(party_run(&p, size, by_host, size == 5 ? NULL : &p, 60) == 0, "... in the order of hosts%s",
           size == 5 ? "" : ", means");
    }
    setenv("HOOP_ORDER", "rank", 1);
    cuda_rank_party(&p, 3, collectives, 0, "... also in rank order");
    unsetenv("HOOP_ORDER");
    setenv("HOOP_WIRE_DTYPE", "bfloat16", 1);
    setenv("HOOP_SPREAD_BYTES", "0", 1);
    setenv("HOOP_SHM", "0", 1); /* in memory nothing travels narrower */
    cuda_rank_party(&p, 3, narrower, 0, "... also as bfloat16 on the wire");
    setenv("HOOP_WIRE_DTYPE", "e4m3", 1);
    cuda_rank_party(&p, 3, narrower, 0, "... and as e4m3 in blocks");
    unsetenv("HOOP_SHM");
    unsetenv("HOOP_SPREAD_BYTES");
    unsetenv("HOOP_WIRE_DTYPE");
    test_narrow(&p);
    setenv("HOOP_SNDBUF", "65536",
           1); /* full while the last rank is late: the loop must notice when there is room again */
    cuda_rank_party(&p, 3, first_use, 0, "the GPU's first use does not wait for ever behind an operation under way");
    if (!getenv("HOOP_TEST_CUDA"))
        cuda_rank_faults(&p, failures, 23, judge);
    else
        skip(2, "a real driver does not fail on demand");
    party_close(&p);
    return 0;
}
