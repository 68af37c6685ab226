/* SPDX-License-Identifier: MIT */
/*
 * Every collective, type and operation on real rings of processes, in place and not, blocking, in flight and in groups,
 * against t/sim/answer.c (trial.h). uneven.c has counts of all shapes, means.c and order.c have floats' own promises.
 */
#include "base/dtype.h"
#include "t/sys/trial.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <malloc.h>
#include <stdlib.h>

enum { EVEN = HP_ALLTOALL, KINDS = HP_REDUCE_SCATTERV, MOST_RANKS = 8 }; /* kinds without counts of each rank */

/* The n-th kind, from 0, of those that have data. */
static hp_kind
kind_at(int n)
{
    return (hp_kind)(n < EVEN ? 1 + n : HP_ALLGATHERV + n - EVEN);
}

/* A root, or the shape of the counts. */
static trial
trial_of(hp_kind kind, hoop_dtype dtype, hoop_op op, size_t count, uint64_t seed, int size)
{
    trial t = {.call = {.kind = (uint8_t)kind, .dtype = (uint8_t)dtype, .count = count}, .seed = seed};
    t.call.op = (uint8_t)(hp_kind_reduces(kind) ? op : HOOP_SUM);
    t.call.root = hp_kind_has_counts(kind)  ? (int32_t)(seed >> 32)
                  : hp_kind_is_rooted(kind) ? (int32_t)(seed % (uint64_t)size)
                                            : -1;
    return t;
}

/* All operations that can go over two levels do: of those with data these alone, so nothing else is tried again. */
static int over_levels;

static int
has_levels(int kind)
{
    return kind == HP_ALLREDUCE || kind == HP_REDUCE_SCATTER || kind == HP_ALLGATHER;
}

static int
succeeds(trial *t, hoop_comm *comm)
{
    return (over_levels && !has_levels(t->call.kind)) || trial_succeeds(t, comm);
}

static int
try_counts(hoop_comm *comm, uint64_t seed)
{
    size_t n = (size_t)hoop_comm_size(comm);
    const size_t counts[] = {0, 1, n - 1, n, n + 1, 97, 1024, 10007, 65537, 100003};
    for (int i = 0; i < 10 * EVEN * 2; i++) {
        trial t = trial_of(kind_at(i / 2 % EVEN), HOOP_FLOAT32, HOOP_SUM, counts[i / 2 / EVEN],
                           tap_mix(seed + (uint64_t)i), (int)n);
        t.in_place = i % 2;
        if (!succeeds(&t, comm))
            return 0;
    }
    return 1;
}

static int
try_types(hoop_comm *comm, uint64_t seed)
{
    for (int i = 0; i < HP_DTYPES * HP_OPS * (EVEN + 2); i++) {
        hoop_dtype dtype = hp_dtype_at(i / (EVEN + 2) / HP_OPS);
        hoop_op op = hp_op_at(i / (EVEN + 2) % HP_OPS);
        trial t = trial_of(kind_at(i % (EVEN + 2)), dtype, op, 1031, tap_mix(seed + (uint64_t)i), hoop_comm_size(comm));
        if (hp_op_applies(op, dtype) && !succeeds(&t, comm))
            return 0;
    }
    return 1;
}

/* The types that NCCL does not have, in every size, in place and not, with every operation in turn. */
static int
try_own_types(hoop_comm *comm, uint64_t seed)
{
    static const hoop_dtype own[] = {HOOP_BOOL, HOOP_INT16, HOOP_UINT16};
    size_t n = (size_t)hoop_comm_size(comm);
    const size_t counts[] = {0, 1, 2, 3, n - 1, n, n + 1, 97, 1024, 10007, 65537, 524309};
    for (int i = 0; i < (int)(sizeof(counts) / sizeof(*counts)) * HP_OPS * 2; i++) {
        hoop_op op = hp_op_at(i / 2 % HP_OPS);
        uint64_t r = tap_mix(seed + (uint64_t)i);
        hp_kind kind = r / 2048 % 3 > 0 ? HP_ALLREDUCE : kind_at((int)(r % EVEN));
        trial t = trial_of(kind, own[r / 512 % 3], op, counts[i / 2 / HP_OPS], r, (int)n);
        t.in_place = i % 2;
        if (hp_op_applies(op, own[r / 512 % 3]) && !succeeds(&t, comm))
            return 0;
    }
    return 1;
}

static int
try_flight(hoop_comm *comm, uint64_t seed)
{
    enum { N = 24 };
    trial t[N];
    hoop_work *work[N];
    for (int i = 0; i < N; i++) {
        uint64_t r = tap_mix(seed + (uint64_t)i);
        t[i] = trial_of(kind_at((int)(r % EVEN)), HOOP_INT32, (hoop_op)(r >> 40 & 3), (size_t)((r >> 20) % 70000), r,
                        hoop_comm_size(comm));
        t[i].in_place = (int)(r >> 16 & 1);
        trial_make(&t[i], comm);
        if (trial_call(&t[i], comm, &work[i]) != HOOP_SUCCESS)
            return 0;
    }
    int good = hoop_wait_all(work, N) == HOOP_SUCCESS;
    for (int i = 0; i < N; i++) {
        good = good && trial_result_is_right(&t[i]) && trial_is_untouched(&t[i]);
        trial_drop(&t[i]);
    }
    return good && hoop_barrier(comm) == HOOP_SUCCESS && hoop_comm_completed(comm) == N + 1;
}

static int
try_big(hoop_comm *comm, uint64_t seed)
{
    size_t n = (size_t)hoop_comm_size(comm), count = (1 << 21) / n + 3;
    for (int k = 0; k < EVEN; k++) {
        trial t = trial_of(kind_at(k), HOOP_INT64, HOOP_SUM, count, seed + (uint64_t)k, (int)n);
        t.in_place = k & 1;
        if (!succeeds(&t, comm))
            return 0;
    }
    return 1;
}

/* Sizes of a group's tensors: thousands of tiny ones, then ragged ones, from none to more than a slice. */
static size_t
tensor_of(uint64_t random, int tiny)
{
    static const size_t ragged[] = {0, 1, 7, 127, 509, 512, 1021, 1024, 4093, 16411, 65537, 140009};
    return tiny ? random % 26 : ragged[random % (sizeof(ragged) / sizeof(*ragged))] + random / 64 % 3;
}

/*
 * One group of allreduces, in place and not; the ring then moves them as one array, straight from and to the tensors or
 * through slots, as their sizes have it. All ranks have the same bytes, so one rank judges each tensor.
 */
static int
one_group(hoop_comm *comm, uint64_t seed, size_t tensors, int tiny)
{
    size_t rank = (size_t)hoop_comm_rank(comm), size = (size_t)hoop_comm_size(comm);
    int good = hoop_group_start(comm) == HOOP_SUCCESS,
        places = (int)(tap_mix(seed) % 3); /* all in place, none, mixed */
    trial *t = calloc(tensors, sizeof(*t));
    for (size_t i = 0; i < tensors; i++) {
        uint64_t r = tap_mix(seed + i);
        hoop_dtype dtype = i % 40 == 39 ? HOOP_FLOAT16 : i % 40 == 19 ? HOOP_BOOL : HOOP_FLOAT32;
        t[i] = trial_of(HP_ALLREDUCE, dtype, i % 50 == 49 ? HOOP_MAX : HOOP_SUM, tensor_of(r >> 1, tiny && i % 256), r,
                        (int)size);
        t[i].in_place = places == 2 ? (int)(r & 1) : places;
        trial_make(&t[i], comm);
        good &= trial_call(&t[i], comm, NULL) == HOOP_SUCCESS;
    }
    good &= hoop_group_end(comm) == HOOP_SUCCESS;
    good &= trials_are_identical(t, tensors, comm);
    for (size_t i = 0; i < tensors; i++) {
        good = good && (i % size != rank || trial_result_is_right(&t[i])) && trial_is_untouched(&t[i]);
        trial_drop(&t[i]);
    }
    free(t);
    return good;
}

static int
try_groups(hoop_comm *comm, uint64_t seed)
{
    int good = 1;
    for (uint64_t k = 0; k < 6; k++) {
        good = good && one_group(comm, tap_mix(seed + k), 3 + 60 * k, 0);
        good = good && one_group(comm, tap_mix(seed + 100 + k), k % 2 ? 5000 : 40, 1);
    }
    return good;
}

static const struct {
    int (*fn)(hoop_comm *comm, uint64_t seed);
    const char *name;
} modes[] = {{try_counts, "counts and in place"},     {try_types, "types and operations"}, {try_own_types, "own types"},
             {try_flight, "24 operations in flight"}, {try_big, "16 MiB of all ranks"},    {try_groups, "groups"}};

typedef struct job {
    uint64_t seed;
    size_t mode;
    int host;   /* ranks of one; 0: all are on one */
    int levels; /* 1: wherever they can be; 0: as by default */
} job;

static int
guest(int rank, int size, void *arg)
{
    const job *j = arg;
    over_levels = j->levels;
    if (j->host)
        party_set_host(rank, j->host);
    if (!j->levels)
        unsetenv("HOOP_LEVELS");
    hoop_comm *comm = party_join(0);
    int good = modes[j->mode].fn(comm, j->seed);
    return hoop_comm_destroy(comm) == HOOP_SUCCESS && good ? 0 : 2;
}

int
main(void)
{
    static const int sizes[] = {1, 2, 3, 4, 5, MOST_RANKS}, hosted[] = {5, MOST_RANKS}, host[] = {3, 2};
    party p;
    tap_limit(240);
    plan_lazy();
    mallopt(M_MMAP_THRESHOLD, 1 << 30); /* freed arrays keep their pages */
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    party_open(&p);
    for (size_t mode = 0; mode < sizeof(modes) / sizeof(*modes); mode++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
            job j = {tap_seed() + mode * 7 + i, mode, 0, 0};
            ok(party_run(&p, sizes[i], guest, &j, 100) == 0, "%s, %d ranks", modes[mode].name, sizes[i]);
        }
    for (size_t mode = 0; mode < sizeof(modes) / sizeof(*modes); mode++)
        for (int i = 0; i < 2; i++) {
            job j = {tap_seed() + mode * 7 + 100, mode, host[i], i};
            ok(party_run(&p, hosted[i], guest, &j, 100) == 0, "%s, %d ranks, %d a host%s", modes[mode].name, hosted[i],
               host[i], i ? ", over two levels" : "");
        }
    party_close(&p);
    return 0;
}
