/* SPDX-License-Identifier: MIT */
/*
 * Every collective, type and operation on real rings of processes, against a reference that is computed alone, in another
 * way: each rank makes every rank's input from the seed and reduces in float64 or 64-bit integers. Outputs are poisoned
 * first and guarded; inputs must be untouched.
 */
#include "base/dtype.h"
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KINDS = 8, GUARD = 64, MOST_RANKS = 8 };
enum { ALLREDUCE, REDUCE_SCATTER, ALLGATHER, BROADCAST, REDUCE, GATHER, SCATTER, ALLTOALL };
static const char *const names[KINDS] = {"allreduce", "reduce_scatter", "allgather", "broadcast",
                                         "reduce",    "gather",         "scatter",   "alltoall"};

typedef struct algorithm {
    int kind, root, in_place;
    size_t count;
    hoop_dtype dtype;
    hoop_op op;
} algorithm;

/*
 * Small whole numbers: exact in every type and under every operation tried here, so that the reference is exact too. They
 * repeat after a prime number of elements, for speed; t/lib/channel.c tells every element from every other one.
 */
enum { PERIOD = 8191 };

static int
value_of(const algorithm *s, uint64_t seed, int rank, size_t i)
{
    uint64_t r = tap_mix(seed + ((uint64_t)rank << 40) + i % PERIOD);
    if (s->op == HOOP_PROD && s->dtype != HOOP_BOOL)
        return 1 + (int)(r % 2) * (rank % 3 == 0);
    return (int)(r % 4);
}

/* A whole number below 2048 as IEEE binary16: exponent by the highest bit, mantissa what is behind it. */
static uint16_t
half(int value)
{
    int e = value ? 31 - __builtin_clz((unsigned)value) : 0;
    return (uint16_t)(value ? (e + 15) << 10 | ((value << (10 - e)) & 0x3ff) : 0);
}

static void
put(void *at, hoop_dtype dtype, size_t i, int value)
{
    static const uint8_t e4m3[8] = {0, 0x38, 0x40, 0x44, 0x48, 0x4a, 0x4c, 0x4e};
    static const uint8_t e5m2[8] = {0, 0x3c, 0x40, 0x42, 0x44, 0x45, 0x46, 0x47};
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    switch (dtype) {
    case HOOP_INT8:
    case HOOP_UINT8:
    case HOOP_BOOL: ((uint8_t *)at)[i] = (uint8_t)value; break;
    case HOOP_INT16:
    case HOOP_UINT16: ((uint16_t *)at)[i] = (uint16_t)value; break;
    case HOOP_INT32:
    case HOOP_UINT32: ((uint32_t *)at)[i] = (uint32_t)value; break;
    case HOOP_INT64:
    case HOOP_UINT64: ((uint64_t *)at)[i] = (uint64_t)value; break;
    case HOOP_FLOAT16: ((uint16_t *)at)[i] = half(value); break;
    case HOOP_FLOAT32: ((float *)at)[i] = f; break;
    case HOOP_FLOAT64: ((double *)at)[i] = value; break;
    case HOOP_BFLOAT16: ((uint16_t *)at)[i] = (uint16_t)(bits >> 16); break;
    case HOOP_FLOAT8E4M3: ((uint8_t *)at)[i] = e4m3[value & 7]; break;
    case HOOP_FLOAT8E5M2: ((uint8_t *)at)[i] = e5m2[value & 7]; break;
    }
}

static int
combined(hoop_op op, int a, int b)
{
    switch (op) {
    case HOOP_PROD: return a * b;
    case HOOP_MAX: return a > b ? a : b;
    case HOOP_MIN: return a < b ? a : b;
    case HOOP_BAND: return a & b;
    case HOOP_BOR: return a | b;
    case HOOP_BXOR: return a ^ b;
    default: return a + b;
    }
}

/* Bools are true unless they are 0, and 0 or 1 afterwards: how many are true decides. */
static int
reduced_bool(const algorithm *s, uint64_t seed, int size, size_t i)
{
    int trues = 0;
    for (int k = 0; k < size; k++)
        trues += value_of(s, seed, k, i) != 0;
    if (s->op == HOOP_BXOR)
        return trues % 2;
    return s->op == HOOP_PROD || s->op == HOOP_MIN || s->op == HOOP_BAND ? trues == size : trues > 0;
}

/* What all ranks together make of element i, of a mean their sum. Types too small for the result take part with MAX and
 * MIN only. */
static int
reduced(const algorithm *s, uint64_t seed, int size, size_t i)
{
    int r = value_of(s, seed, 0, i);
    if (s->dtype == HOOP_BOOL)
        return reduced_bool(s, seed, size, i);
    for (int k = 1; k < size; k++)
        r = combined(s->op, r, value_of(s, seed, k, i));
    return r;
}

/* The first PERIOD of n elements are there: the others repeat them. */
static void
repeat(uint8_t *at, size_t n, size_t elem)
{
    for (size_t made = PERIOD, more; made < n; made += more) {
        more = made < n - made ? made : n - made;
        memcpy(at + made * elem, at, more * elem);
    }
}

typedef struct buffers {
    uint8_t *send, *recv, *send_copy;
    size_t send_bytes, recv_bytes;
} buffers;

static size_t
blocks_of_send(int kind, int size)
{
    return kind == REDUCE_SCATTER || kind == SCATTER || kind == ALLTOALL ? (size_t)size : 1;
}

static size_t
blocks_of_recv(int kind, int size)
{
    return kind == ALLGATHER || kind == GATHER || kind == ALLTOALL ? (size_t)size : 1;
}

/* Two arrays, or one with the sender's part where the in-place form wants it. */
static void
make(buffers *b, const algorithm *s, int rank, int size, uint64_t seed)
{
    size_t elem = hp_dtype_size(s->dtype), block = s->count * elem;
    size_t sends = blocks_of_send(s->kind, size), recvs = blocks_of_recv(s->kind, size);
    b->send_bytes = sends * block;
    b->recv_bytes = recvs * block;
    uint8_t *one = malloc((b->send_bytes > b->recv_bytes ? b->send_bytes : b->recv_bytes) + GUARD);
    b->recv = s->in_place ? one : malloc(b->recv_bytes + GUARD);
    b->send = one;
    memset(b->recv, 0xa5, b->recv_bytes + GUARD);
    if (s->in_place && recvs > sends)
        b->send = one + (size_t)rank * block;
    if (s->in_place && sends > recvs)
        b->recv = one + (size_t)rank * block;
    for (size_t i = 0; i < sends * s->count && i < PERIOD; i++)
        put(b->send, s->dtype, i, value_of(s, seed, rank, i));
    repeat(b->send, sends * s->count, elem);
    b->send_copy = malloc(b->send_bytes + 1);
    memcpy(b->send_copy, b->send, b->send_bytes);
}

static void
drop(buffers *b, const algorithm *s)
{
    if (s->in_place)
        free(b->send < b->recv ? b->send : b->recv);
    else {
        free(b->send);
        free(b->recv);
    }
    free(b->send_copy);
}

static hoop_result
call(const algorithm *s, const buffers *b, hoop_comm *comm, hoop_work **work)
{
    const void *in = b->send;
    void *out = b->recv;
    switch (s->kind) {
    case ALLREDUCE:
        return work ? hoop_iallreduce(in, out, s->count, s->dtype, s->op, comm, work)
                    : hoop_allreduce(in, out, s->count, s->dtype, s->op, comm);
    case REDUCE_SCATTER:
        return work ? hoop_ireduce_scatter(in, out, s->count, s->dtype, s->op, comm, work)
                    : hoop_reduce_scatter(in, out, s->count, s->dtype, s->op, comm);
    case ALLGATHER:
        return work ? hoop_iallgather(in, out, s->count, s->dtype, comm, work)
                    : hoop_allgather(in, out, s->count, s->dtype, comm);
    case BROADCAST:
        return work ? hoop_ibroadcast(in, out, s->count, s->dtype, s->root, comm, work)
                    : hoop_broadcast(in, out, s->count, s->dtype, s->root, comm);
    case REDUCE:
        return work ? hoop_ireduce(in, out, s->count, s->dtype, s->op, s->root, comm, work)
                    : hoop_reduce(in, out, s->count, s->dtype, s->op, s->root, comm);
    case GATHER:
        return work ? hoop_igather(in, out, s->count, s->dtype, s->root, comm, work)
                    : hoop_gather(in, out, s->count, s->dtype, s->root, comm);
    case SCATTER:
        return work ? hoop_iscatter(in, out, s->count, s->dtype, s->root, comm, work)
                    : hoop_scatter(in, out, s->count, s->dtype, s->root, comm);
    default:
        return work ? hoop_ialltoall(in, out, s->count, s->dtype, comm, work)
                    : hoop_alltoall(in, out, s->count, s->dtype, comm);
    }
}

/* Element i of what this rank must have received. */
static int
wanted(const algorithm *s, int rank, int size, uint64_t seed, size_t i)
{
    size_t block = s->count ? i / s->count : 0, within = s->count ? i % s->count : 0;
    switch (s->kind) {
    case ALLREDUCE:
    case REDUCE: return reduced(s, seed, size, i) / (s->op == HOOP_AVG ? size : 1);
    case REDUCE_SCATTER:
        i += (size_t)rank * s->count;
        return reduced(s, seed, size, i) / (s->op == HOOP_AVG ? size : 1);
    case ALLGATHER:
    case GATHER: return value_of(s, seed, (int)block, within);
    case BROADCAST: return value_of(s, seed, s->root, i);
    case SCATTER: return value_of(s, seed, s->root, (size_t)rank * s->count + i);
    default: return value_of(s, seed, (int)block, (size_t)rank * s->count + within);
    }
}

static int
receives(const algorithm *s, int rank)
{
    return (s->kind != REDUCE && s->kind != GATHER) || rank == s->root;
}

/* A float average need not be whole, nor a mean on its way: compared where they are; means.c has the others. */
static int
is_exact(const algorithm *s, int rank, int size, uint64_t seed, size_t i)
{
    size_t at = s->kind == REDUCE_SCATTER ? i + (size_t)rank * s->count : i;
    int reduces = s->kind == ALLREDUCE || s->kind == REDUCE || s->kind == REDUCE_SCATTER;
    if (s->op != HOOP_AVG || !hp_dtype_is_float(s->dtype) || !reduces)
        return 1;
    return reduced(s, seed, size, at) % size == 0 && (size <= 2 || hp_narrow_index(s->dtype) < 0);
}

/* Whether this rank received what it must, and if not, where. */
static int
result_is_right(const algorithm *s, const buffers *b, int rank, int size, uint64_t seed)
{
    size_t elem = hp_dtype_size(s->dtype), blocks = receives(s, rank) ? blocks_of_recv(s->kind, size) : 0;
    size_t n = blocks * s->count;
    uint8_t *want = calloc(n + 1, elem);
    int good = 1;
    for (size_t block = 0; block < blocks; block++) {
        for (size_t i = 0; i < s->count && i < PERIOD; i++)
            put(want, s->dtype, block * s->count + i, wanted(s, rank, size, seed, block * s->count + i));
        repeat(want + block * s->count * elem, s->count, elem);
    }
    int same = memcmp(want, b->recv, n * elem) == 0;
    for (size_t i = 0; i < n && good && !same; i++) {
        good = memcmp(want + i * elem, b->recv + i * elem, elem) == 0 || !is_exact(s, rank, size, seed, i);
        if (!good)
            party_note("%s count %zu %s op %d root %d in place %d: element %zu is wrong", names[s->kind], s->count,
                       hp_dtype_name(s->dtype), s->op, s->root, s->in_place, i);
    }
    free(want);
    return good;
}

static int
rest_is_untouched(const algorithm *s, const buffers *b)
{
    if (!s->in_place && memcmp(b->send, b->send_copy, b->send_bytes) != 0) {
        party_note("%s count %zu: the input was changed", names[s->kind], s->count);
        return 0;
    }
    for (int i = 0; i < GUARD && !s->in_place; i++)
        if (b->recv[b->recv_bytes + (size_t)i] != 0xa5) {
            party_note("%s count %zu: wrote past the end", names[s->kind], s->count);
            return 0;
        }
    return 1;
}

static int
check(const algorithm *s, const buffers *b, int rank, int size, uint64_t seed)
{
    return result_is_right(s, b, rank, size, seed) && rest_is_untouched(s, b);
}

static int
one(const algorithm *s, hoop_comm *comm, uint64_t seed)
{
    int rank = hoop_comm_rank(comm), size = hoop_comm_size(comm), good;
    buffers b;
    hoop_result result;
    make(&b, s, rank, size, seed);
    result = call(s, &b, comm, NULL);
    good = result == HOOP_SUCCESS && check(s, &b, rank, size, seed);
    if (result != HOOP_SUCCESS) {
        hoop_error e = {.size = sizeof(e)};
        hoop_comm_error(comm, &e);
        party_note("%s count %zu: %s", names[s->kind], s->count, e.text);
    }
    drop(&b, s);
    return good;
}

typedef struct job {
    uint64_t seed;
    int mode;
} job;

enum { COUNTS, TYPES, OWN_TYPES, FLIGHT, BIG, GROUPS };

static int
try_counts(hoop_comm *comm, uint64_t seed)
{
    size_t n = (size_t)hoop_comm_size(comm);
    const size_t counts[] = {0, 1, n - 1, n, n + 1, 97, 1024, 10007, 40001, 65537, 262144};
    for (size_t c = 0; c < sizeof(counts) / sizeof(*counts); c++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int in_place = 0; in_place < 2; in_place++) {
                algorithm s = {kind, (int)(tap_mix(seed + c) % n), in_place, counts[c], HOOP_FLOAT32, HOOP_SUM};
                if (!one(&s, comm, tap_mix(seed + (uint64_t)(c * 100) + (uint64_t)kind)))
                    return 0;
            }
    return 1;
}

/* Sums of three bits and products of few twos fit all types on rings of up to four; larger rings keep to the wide ones. */
static int
try_types(hoop_comm *comm, uint64_t seed)
{
    for (int i = 0; i < HP_DTYPES * HP_OPS * KINDS; i++) {
        hoop_dtype dtype = hp_dtype_at(i / KINDS / HP_OPS);
        hoop_op op = hp_op_at(i / KINDS % HP_OPS);
        int narrow = dtype == HOOP_FLOAT8E4M3 || dtype == HOOP_FLOAT8E5M2;
        algorithm s = {i % KINDS, 0, 0, 1031, dtype, op};
        if (narrow && hoop_comm_size(comm) > 2 && (op == HOOP_SUM || op == HOOP_PROD || op == HOOP_AVG))
            s.op = op == HOOP_SUM ? HOOP_MAX : HOOP_MIN;
        if (hp_op_applies(op, dtype) && !one(&s, comm, tap_mix(seed + (uint64_t)i)))
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
        algorithm s = {(int)(r % KINDS), (int)(r / KINDS % n), i % 2, counts[i / 2 / HP_OPS], own[r / 512 % 3], op};
        if (r / 2048 % 3 > 0)
            s.kind = ALLREDUCE;
        if (hp_op_applies(op, s.dtype) && !one(&s, comm, r))
            return 0;
    }
    return 1;
}

static int
try_flight(hoop_comm *comm, uint64_t seed)
{
    enum { N = 24 };
    int rank = hoop_comm_rank(comm), size = hoop_comm_size(comm), good = 1;
    algorithm s[N];
    buffers b[N];
    hoop_work *work[N];
    for (int i = 0; i < N; i++) {
        uint64_t r = tap_mix(seed + (uint64_t)i);
        s[i] = (algorithm){(int)(r % KINDS),   (int)((r >> 8) % (uint64_t)size),
                           (int)(r >> 16 & 1), (size_t)((r >> 20) % 70000),
                           HOOP_INT32,         (hoop_op)((r >> 40) % 4)};
        make(&b[i], &s[i], rank, size, r);
        if (call(&s[i], &b[i], comm, &work[i]) != HOOP_SUCCESS)
            return 0;
    }
    good = hoop_wait_all(work, N) == HOOP_SUCCESS;
    for (int i = 0; i < N; i++) {
        good = good && check(&s[i], &b[i], rank, size, tap_mix(seed + (uint64_t)i));
        drop(&b[i], &s[i]);
    }
    return good && hoop_barrier(comm) == HOOP_SUCCESS && hoop_comm_completed(comm) == N + 1;
}

static int
try_big(hoop_comm *comm, uint64_t seed)
{
    for (int kind = 0; kind < KINDS; kind++) {
        algorithm s = {kind, hoop_comm_size(comm) - 1, kind & 1, (1 << 20) + 3, HOOP_INT64, HOOP_SUM};
        if (!one(&s, comm, seed + (uint64_t)kind))
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

/* Whether all ranks have received the same bytes: a sum of each rank's, compared at all of them. */
static int
all_have_the_same(hoop_comm *comm, const buffers *b, size_t tensors)
{
    uint64_t sum = 0, sums[MOST_RANKS], word;
    for (size_t i = 0; i < tensors; i++)
        for (size_t at = 0; at < b[i].recv_bytes; at += sizeof(word)) {
            size_t rest = b[i].recv_bytes - at;
            word = 0;
            memcpy(&word, b[i].recv + at, rest < sizeof(word) ? rest : sizeof(word));
            sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
            sum ^= sum >> 29;
        }
    int same = hoop_allgather(&sum, sums, 1, HOOP_UINT64, comm) == HOOP_SUCCESS;
    for (int rank = 0; rank < hoop_comm_size(comm); rank++)
        same = same && sums[rank] == sum;
    return same;
}

/* One group of allreduces, in place and not; the ring then moves them as one array, straight from and to the tensors or
 * through slots, as their sizes have it. Where all ranks have the same bytes, one rank judges each tensor; otherwise all
 * judge all. */
static int
one_group(hoop_comm *comm, uint64_t seed, size_t tensors, int tiny)
{
    int rank = hoop_comm_rank(comm), size = hoop_comm_size(comm), good = hoop_group_start(comm) == HOOP_SUCCESS;
    algorithm *s = calloc(tensors, sizeof(*s));
    buffers *b = calloc(tensors, sizeof(*b));
    for (size_t i = 0; i < tensors; i++) {
        uint64_t r = tap_mix(seed + i);
        int places = (int)(tap_mix(seed) % 3); /* all in place, none, or mixed */
        s[i] = (algorithm){ALLREDUCE, 0, places == 2 ? (int)(r & 1) : places, tensor_of(r >> 1, tiny && i % 256), 0, 0};
        s[i].dtype = i % 40 == 39 ? HOOP_FLOAT16 : i % 40 == 19 ? HOOP_BOOL : HOOP_FLOAT32;
        s[i].op = i % 50 == 49 ? HOOP_MAX : HOOP_SUM;
        make(&b[i], &s[i], rank, size, r);
        good &= call(&s[i], &b[i], comm, NULL) == HOOP_SUCCESS;
    }
    good &= hoop_group_end(comm) == HOOP_SUCCESS;
    int same = all_have_the_same(comm, b, tensors);
    for (size_t i = 0; i < tensors; i++) {
        int judges = !same || i % (size_t)size == (size_t)rank;
        good = good && (!judges || result_is_right(&s[i], &b[i], rank, size, tap_mix(seed + i)));
        good = good && rest_is_untouched(&s[i], &b[i]);
        drop(&b[i], &s[i]);
    }
    free(s);
    free(b);
    return good && same;
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

static int
guest(int rank, int size, void *arg)
{
    const job *j = arg;
    hoop_comm *comm = party_join(0);
    int good;
    (void)rank;
    (void)size;
    good = j->mode == COUNTS      ? try_counts(comm, j->seed)
           : j->mode == TYPES     ? try_types(comm, j->seed)
           : j->mode == OWN_TYPES ? try_own_types(comm, j->seed)
           : j->mode == BIG       ? try_big(comm, j->seed)
           : j->mode == GROUPS    ? try_groups(comm, j->seed)
                                  : try_flight(comm, j->seed);
    if (hoop_comm_destroy(comm) != HOOP_SUCCESS)
        good = 0;
    return good ? 0 : 2;
}

int
main(void)
{
    static const int sizes[] = {1, 2, 3, 4, 5, MOST_RANKS};
    static const char *const modes[] = {"counts and in place",     "types and operations", "own types",
                                        "24 operations in flight", "a million elements",   "groups"};
    party p;
    tap_limit(240);
    plan_lazy();
    mallopt(M_MMAP_THRESHOLD, 1 << 30); /* freed arrays keep their pages */
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    party_open(&p);
    for (int mode = COUNTS; mode <= GROUPS; mode++)
        for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
            job j = {tap_seed() + (uint64_t)mode * 7 + i, mode};
            ok(party_run(&p, sizes[i], guest, &j, 100) == 0, "%s, %d ranks", modes[mode], sizes[i]);
        }
    party_close(&p);
    return 0;
}
