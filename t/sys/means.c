/* SPDX-License-Identifier: MIT */
/*
 * HOOP_AVG of 16- and 8-bit floats on real rings of processes: where a sum would overflow and an n-th part underflow,
 * the mean is there, within the bound of hoop_allreduce(3), with the same bits on every rank; NaN and infinity pass
 * through. t/sim/answer.c has the data and the bound; some values are written out here.
 */
#include "base/dtype.h"
#include "t/sys/trial.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <stdlib.h>
#include <string.h>

enum { LARGEST = 70001 };

typedef struct job {
    uint64_t seed;
    int grouped;
} job;

static const hp_kind kinds[] = {HP_ALLREDUCE, HP_REDUCE_SCATTER, HP_REDUCE};

/* Where every rank has the same bytes, one judges them: another one for each turn. */
static int
is_right(const trial *t, size_t turn, hoop_comm *comm)
{
    int shared = t->call.kind == HP_ALLREDUCE, judges = !shared || turn % (size_t)t->size == (size_t)t->rank;
    if (shared && !trials_are_identical(t, 1, comm)) {
        party_note("ranks have other bits");
        return 0;
    }
    return (!judges || trial_result_is_right(t)) && trial_is_untouched(t);
}

static trial
mean_of(hp_kind kind, hoop_dtype dtype, size_t count, uint64_t seed, int in_place)
{
    return (trial){.call = {.kind = (uint8_t)kind, .dtype = (uint8_t)dtype, .op = HOOP_AVG, .root = -1, .count = count},
                   .seed = seed,
                   .in_place = in_place};
}

/* Calls of a type have the same data, since rounding it takes longer than the calls. */
static int
try_calls(hoop_comm *comm, uint64_t seed)
{
    int good = 1;
    size_t n = (size_t)hoop_comm_size(comm);
    const size_t counts[] = {0, 1, n - 1, n, n + 1, 13, 64, 257, 1024, 4099, 16384, LARGEST};
    for (size_t i = 0; i < (size_t)HP_NARROW * 3 * 2 * 12 && good; i++) {
        trial t = mean_of(kinds[i / 24 % 3], hp_narrow[i / 72], counts[i % 12], seed, (int)(i / 12 % 2));
        if (t.call.kind == HP_REDUCE)
            t.call.root = (int32_t)(i % n);
        trial_make(&t, comm);
        good = trial_call(&t, comm, NULL) == HOOP_SUCCESS && is_right(&t, i, comm);
        trial_drop(&t);
    }
    return good;
}

/* Small and large tensors of all four types in one group: those of a type travel as one array. */
static int
try_groups(hoop_comm *comm, uint64_t seed)
{
    enum { TENSORS = 120 };
    static trial t[TENSORS];
    int good = hoop_group_start(comm) == HOOP_SUCCESS;
    for (int i = 0; i < TENSORS; i++) {
        size_t count = (size_t)(i * 7919 % 331) * (i % 11 == 0 ? 97 : 1);
        t[i] = mean_of(HP_ALLREDUCE, hp_narrow[i % 4], count, seed, i % 3 == 0);
        trial_make(&t[i], comm);
        good &= trial_call(&t[i], comm, NULL) == HOOP_SUCCESS;
    }
    good &= hoop_group_end(comm) == HOOP_SUCCESS;
    for (int i = 0; i < TENSORS; i++) {
        good = good && is_right(&t[i], (size_t)i, comm);
        trial_drop(&t[i]);
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
