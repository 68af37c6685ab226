/* SPDX-License-Identifier: MIT */
/*
 * HOOP_AVG of 16- and 8-bit floats on real rings of processes: where a sum would overflow and an n-th part underflow,
 * the mean is there, within the bound of hoop_allreduce(3), with the same bits on every rank; NaN and infinity pass
 * through. t/sim/answer.c has the data and the bound; some values are written out here.
 */
#include "base/dtype.h"
#include "hoop.h"
#include "t/sim/sim.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <stdlib.h>
#include <string.h>

enum { LARGEST = 70001 };

typedef struct job {
    uint64_t seed;
    int grouped;
} job;

typedef struct arrays {
    void *send, *recv;
} arrays;

static const hp_kind kinds[] = {HP_ALLREDUCE, HP_REDUCE_SCATTER, HP_REDUCE};

/* Two arrays, or one: then a reduce_scatter's result goes to its block of what is sent. */
static arrays
make(const hp_call *call, uint64_t seed, int rank, int size, int in_place)
{
    size_t elem = hp_dtype_size((hoop_dtype)call->dtype), sends = sim_send_count(call, rank, size);
    arrays a = {.send = calloc(sends + 1, elem)};
    a.recv = in_place ? a.send : calloc(call->count + 1, elem);
    if (in_place && call->kind == HP_REDUCE_SCATTER)
        a.recv = (char *)a.send + (size_t)rank * call->count * elem;
    sim_fill(call, seed, rank, size, a.send);
    return a;
}

static void
drop(const arrays *a, int in_place)
{
    free(a->send);
    if (!in_place)
        free(a->recv);
}

static hoop_result
run(const hp_call *call, const arrays *a, hoop_comm *comm)
{
    hoop_dtype dtype = (hoop_dtype)call->dtype;
    switch ((hp_kind)call->kind) {
    case HP_REDUCE_SCATTER: return hoop_reduce_scatter(a->send, a->recv, call->count, dtype, HOOP_AVG, comm);
    case HP_REDUCE: return hoop_reduce(a->send, a->recv, call->count, dtype, HOOP_AVG, call->root, comm);
    default: return hoop_allreduce(a->send, a->recv, call->count, dtype, HOOP_AVG, comm);
    }
}

/* Every rank's bytes, compared at all of them. */
static int
is_identical(const hp_call *call, const arrays *a, hoop_comm *comm)
{
    size_t bytes = call->count * hp_dtype_size((hoop_dtype)call->dtype), ranks = (size_t)hoop_comm_size(comm);
    char *all = calloc(ranks, bytes + 1);
    int same = hoop_allgather(a->recv, all, bytes, HOOP_INT8, comm) == HOOP_SUCCESS;
    for (size_t r = 0; r < ranks && bytes > 0; r++)
        same = same && memcmp(all + r * bytes, a->recv, bytes) == 0;
    free(all);
    return same;
}

/* Where every rank has the same bytes, one judges them: another one for each turn. */
static int
is_right(const hp_call *call, uint64_t seed, size_t turn, const arrays *a, hoop_comm *comm)
{
    char why[200] = "ranks have other bits", text[100];
    int rank = hoop_comm_rank(comm), size = hoop_comm_size(comm), shared = call->kind == HP_ALLREDUCE;
    int judges = !shared || turn % (size_t)size == (size_t)rank;
    if ((!shared || is_identical(call, a, comm)) &&
        (!judges || sim_answer_is_right(call, seed, rank, size, a->recv, why, sizeof(why))))
        return 1;
    party_note("%s: %s", hp_call_print(call, text, sizeof(text)), why);
    return 0;
}

/* Calls of a type have the same data, since rounding it takes longer than the calls. */
static int
try_calls(hoop_comm *comm, uint64_t seed)
{
    int rank = hoop_comm_rank(comm), size = hoop_comm_size(comm), good = 1;
    size_t n = (size_t)size;
    const size_t counts[] = {0, 1, n - 1, n, n + 1, 13, 64, 257, 1024, 4099, 16384, LARGEST};
    for (size_t i = 0; i < (size_t)HP_NARROW * 3 * 2 * 12 && good; i++) {
        int in_place = (int)(i / 12 % 2);
        hp_call call = {.kind = (uint8_t)kinds[i / 24 % 3], .dtype = (uint8_t)hp_narrow[i / 72], .op = HOOP_AVG};
        call.root = call.kind == HP_REDUCE ? (int32_t)(i % n) : -1;
        call.count = counts[i % 12];
        arrays a = make(&call, seed, rank, size, in_place);
        good = run(&call, &a, comm) == HOOP_SUCCESS && is_right(&call, seed, i, &a, comm);
        drop(&a, in_place);
    }
    return good;
}

/* Small and large tensors of all four types in one group: those of a type travel as one array. */
static int
try_groups(hoop_comm *comm, uint64_t seed)
{
    enum { TENSORS = 120 };
    arrays a[TENSORS];
    hp_call call[TENSORS];
    int good = hoop_group_start(comm) == HOOP_SUCCESS;
    for (int i = 0; i < TENSORS; i++) {
        call[i] = (hp_call){.kind = HP_ALLREDUCE, .dtype = (uint8_t)hp_narrow[i % 4], .op = HOOP_AVG, .root = -1};
        call[i].count = (uint64_t)(i * 7919 % 331) * (i % 11 == 0 ? 97 : 1);
        a[i] = make(&call[i], seed, hoop_comm_rank(comm), hoop_comm_size(comm), i % 3 == 0);
        good &= run(&call[i], &a[i], comm) == HOOP_SUCCESS;
    }
    good &= hoop_group_end(comm) == HOOP_SUCCESS;
    for (int i = 0; i < TENSORS; i++) {
        good = good && is_right(&call[i], seed, (size_t)i, &a[i], comm);
        drop(&a[i], i % 3 == 0);
    }
    return good;
}

/* What every rank has is the mean, whatever the sum would be. */
static int
try_equal(hoop_comm *comm)
{
    static const struct {
        hoop_dtype dtype;
        uint16_t element;
    } same[] = {
        {HOOP_FLOAT16, 0x78e2},  /* 40000 */
        {HOOP_FLOAT16, 0xfbff},  /* -65504, the largest */
        {HOOP_FLOAT16, 0x0001},  /* the smallest */
        {HOOP_BFLOAT16, 0x7f7f}, /* the largest */
        {HOOP_BFLOAT16, 0x8001}, /* minus the smallest */
        {HOOP_FLOAT8E4M3, 0x7e}, /* 448, the largest */
        {HOOP_FLOAT8E4M3, 0x15}, /* 0.05 */
        {HOOP_FLOAT8E4M3, 0x01}, /* the smallest */
        {HOOP_FLOAT8E5M2, 0x7b}, /* 57344, the largest */
        {HOOP_FLOAT8E5M2, 0x81}, /* minus the smallest */
        {HOOP_FLOAT8E5M2, 0x7c}, /* infinity */
        {HOOP_FLOAT16, 0x7fff},  /* NaN */
    };
    int good = 1;
    for (size_t i = 0; i < sizeof(same) / sizeof(*same) && good; i++) {
        for (size_t count = 1; count <= 30000 && good; count *= 30) {
            size_t elem = hp_dtype_size(same[i].dtype);
            char *x = calloc(count, elem), *wanted = calloc(count, elem);
            for (size_t k = 0; k < count; k++)
                memcpy(wanted + k * elem, &same[i].element, elem);
            memcpy(x, wanted, count * elem);
            good = hoop_allreduce(x, x, count, same[i].dtype, HOOP_AVG, comm) == HOOP_SUCCESS &&
                   memcmp(x, wanted, count * elem) == 0;
            if (!good)
                party_note("%s 0x%x became 0x%x", hp_dtype_name(same[i].dtype), same[i].element, x[0]);
            free(x);
            free(wanted);
        }
    }
    return good;
}

static int
guest(int rank, int size, void *arg)
{
    const job *j = arg;
    hoop_comm *comm = party_join(0);
    int good;
    (void)rank;
    (void)size;
    good = j->grouped ? try_groups(comm, j->seed) : try_equal(comm) && try_calls(comm, j->seed);
    return hoop_comm_destroy(comm) == HOOP_SUCCESS && good ? 0 : 2;
}

int
main(void)
{
    static const int sizes[] = {1, 2, 3, 4, 5, 8, 9};
    party p;
    tap_limit(240);
    plan_lazy();
    party_open(&p);
    for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(*sizes); i++) {
        job j = {tap_seed() + i, i % 2};
        ok(party_run(&p, sizes[i / 2], guest, &j, 100) == 0, "%s of means, %d ranks", j.grouped ? "groups" : "calls",
           sizes[i / 2]);
    }
    party_close(&p);
    return 0;
}
