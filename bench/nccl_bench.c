/* SPDX-License-Identifier: MIT */
/*
 * nccl_bench: allreduce of GPU memory by hoop and by NCCL, by the same ranks, in turns, in one run. NCCL is opened with
 * dlopen (NCCL_LIBRARY, else libnccl.so.2); its id travels through hoop. Every rank has an NCCL_HOSTID of its own, so
 * that NCCL lets several share a GPU. How NCCL moves bytes is up to its own variables (bench/check-gpu sets them).
 *
 *     hooprun -n 4 bench/nccl_bench [DTYPE [LARGEST [ROUNDS]]]      float32 or bfloat16, bytes, most times per size
 *
 * A time is that of the slowest rank, from call until the result is in the rank's memory; the table has medians. For each
 * size and library one result more is made in memory that held something else, and looked at, every element of it; a
 * wrong one is told, and ends the program with 1 when all is measured.
 */
#include "base/clock.h"
#include "base/dtype.h"
#include "gpu/gpu.h"
#include "hoop.h"
#include "t/tools/cuda_device.h"
#include "t/tools/type_named.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROUNDS = 1000, NCCL_SUM = 0 };

typedef struct nccl_id {
    char bytes[128];
} nccl_id;

typedef struct nccl {
    int (*get_id)(nccl_id *id);
    int (*init)(void **comm, int size, nccl_id id, int rank);
    int (*allreduce)(const void *from, void *to, size_t count, int dtype, int op, void *comm, void *stream);
    int (*destroy)(void *comm);
    const char *(*error)(int result);
    const char *(*last_error)(void *comm);
    void *comm;
} nccl;

typedef struct bench {
    hoop_comm *comm;
    hp_device *device;
    void *stream, *in, *out;
    hoop_dtype dtype;
    size_t largest;
    int rounds, rank, size;
    void *host; /* as large as the arrays on the GPU */
    int wrong;  /* results, on any rank */
    nccl peer;
} bench;

static void
need(const bench *b, hoop_result result, const char *what)
{
    hoop_error error = {.size = sizeof(error)};
    if (result == HOOP_SUCCESS)
        return;
    hoop_comm_error(b->comm, &error);
    fprintf(stderr, "nccl_bench: %s: %s\n", what, error.text[0] != '\0' ? error.text : hoop_strerror(result));
    exit(EXIT_FAILURE);
}

static void
need_gpu(hoop_result result, const hoop_error *error)
{
    if (result == HOOP_SUCCESS)
        return;
    fprintf(stderr, "nccl_bench: %s\n", error->text);
    exit(EXIT_FAILURE);
}

static void
find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    if (!symbol) {
        fprintf(stderr, "nccl_bench: NCCL has no %s\n", name);
        exit(EXIT_FAILURE);
    }
    memcpy(function, &symbol, sizeof(symbol));
}

/* 0 where there is no NCCL on this machine. */
static int
load_nccl(nccl *n)
{
    const char *path = getenv("NCCL_LIBRARY");
    void *library = dlopen(path && *path != '\0' ? path : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return 0;
    find(library, "ncclGetUniqueId", &n->get_id);
    find(library, "ncclCommInitRank", &n->init);
    find(library, "ncclAllReduce", &n->allreduce);
    find(library, "ncclCommDestroy", &n->destroy);
    find(library, "ncclGetErrorString", &n->error);
    find(library, "ncclGetLastError", &n->last_error);
    return 1;
}

/* What NCCL refuses is a result too: it is shown, and hoop is measured alone. */
static void
join_nccl(bench *b)
{
    char host[32];
    nccl_id id;
    int32_t bad = !load_nccl(&b->peer), result = 0;
    need(b, hoop_allreduce(&bad, &bad, 1, HOOP_INT32, HOOP_MAX, b->comm), "allreduce");
    if (bad) {
        if (b->rank == 0)
            printf("# no NCCL on this machine (libnccl.so.2, or NCCL_LIBRARY): hoop alone\n");
        return;
    }
    snprintf(host, sizeof(host), "hoop%d", b->rank);
    setenv("NCCL_HOSTID", host, 1);
    memset(&id, 0, sizeof(id));
    if (b->rank == 0)
        result = b->peer.get_id(&id);
    need(b, hoop_broadcast(&id, &id, sizeof(id), HOOP_UINT8, 0, b->comm), "broadcast");
    bad = result;
    need(b, hoop_broadcast(&bad, &bad, 1, HOOP_INT32, 0, b->comm), "broadcast");
    if (bad == 0) /* without an id the others would look for rank 0 for ever */
        result = b->peer.init(&b->peer.comm, hoop_comm_size(b->comm), id, b->rank);
    if (result != 0)
        printf("# NCCL refused on rank %d: %s; %s\n", b->rank, b->peer.error(result), b->peer.last_error(NULL));
    bad = bad != 0 || result != 0;
    need(b, hoop_allreduce(&bad, &bad, 1, HOOP_INT32, HOOP_MAX, b->comm), "allreduce");
    if (bad)
        b->peer.comm = NULL;
}

static void
run_once(bench *b, int by_nccl, size_t count)
{
    hoop_error error = {.size = sizeof(error)};
    if (!by_nccl) {
        need(b, hoop_allreduce(b->in, b->out, count, b->dtype, HOOP_SUM, b->comm), "allreduce");
        return;
    }
    int result = b->peer.allreduce(b->in, b->out, count, (int)b->dtype, NCCL_SUM, b->peer.comm, b->stream);
    if (result != 0) {
        fprintf(stderr, "nccl_bench: ncclAllReduce: %s; %s\n", b->peer.error(result), b->peer.last_error(NULL));
        exit(EXIT_FAILURE);
    }
    need_gpu(hp_cuda_stream_wait(b->device, b->stream, &error), &error);
}

/*
 * --- values: of element i rank i modulo their number has 2 + i % 7, all others have 1: sums that float32 and bfloat16
 * hold exactly, whatever the order, for up to 248 ranks
 */

static void
put_value(const bench *b, size_t i, int value)
{
    float wide = (float)value;
    uint32_t bits;
    memcpy(&bits, &wide, sizeof(bits));
    if (b->dtype == HOOP_FLOAT32)
        ((float *)b->host)[i] = wide;
    else
        ((uint16_t *)b->host)[i] = (uint16_t)(bits >> 16);
}

static float
value_at(const bench *b, size_t i)
{
    float wide;
    uint32_t bits;
    if (b->dtype == HOOP_FLOAT32)
        return ((const float *)b->host)[i];
    bits = (uint32_t)((const uint16_t *)b->host)[i] << 16;
    memcpy(&wide, &bits, sizeof(wide));
    return wide;
}

static void
fill(const bench *b)
{
    hoop_error error = {.size = sizeof(error)};
    for (size_t i = 0; i < b->largest / hp_dtype_size(b->dtype); i++)
        put_value(b, i, i % (size_t)b->size == (size_t)b->rank ? 2 + (int)(i % 7) : 1);
    need_gpu(hp_cuda_copy(b->device, b->in, b->host, b->largest, &error), &error);
}

/* Makes one result more and looks at it. */
static void
check(bench *b, int by_nccl, size_t count)
{
    hoop_error error = {.size = sizeof(error)};
    size_t bytes = count * hp_dtype_size(b->dtype), at = 0;
    int32_t bad = 0;
    memset(b->host, 0x7e, bytes);
    need_gpu(hp_cuda_copy(b->device, b->out, b->host, bytes, &error), &error);
    run_once(b, by_nccl, count);
    need_gpu(hp_cuda_copy(b->device, b->host, b->out, bytes, &error), &error);
    while (at < count && value_at(b, at) == (float)(b->size + 1 + (int)(at % 7)))
        at++;
    if (at < count) {
        printf("# WRONG: %s, %zu bytes, rank %d: element %zu is %.9g\n", by_nccl ? "NCCL" : "hoop", bytes, b->rank, at,
               (double)value_at(b, at));
        bad = 1;
    }
    need(b, hoop_allreduce(&bad, &bad, 1, HOOP_INT32, HOOP_SUM, b->comm), "allreduce");
    b->wrong += bad;
}

static int
by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Microseconds of each round, the slowest rank's, sorted. */
static void
sample(bench *b, int by_nccl, size_t count, double *times, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        need(b, hoop_barrier(b->comm), "barrier");
        uint64_t start = hp_now();
        run_once(b, by_nccl, count);
        times[i] = (double)(hp_now() - start) / 1000;
    }
    need(b, hoop_allreduce(times, times, (size_t)rounds, HOOP_FLOAT64, HOOP_MAX, b->comm), "allreduce");
    qsort(times, (size_t)rounds, sizeof(*times), by_value);
}

/* Three rounds to warm up, then as many as fit into two seconds; the same on every rank. Returns how many. */
static int
sample_well(bench *b, int by_nccl, size_t count, double *times)
{
    double warm[3];
    sample(b, by_nccl, count, warm, 3);
    int rounds = warm[1] * b->rounds < 2e6 ? b->rounds : (int)(2e6 / warm[1]);
    if (rounds < 5)
        rounds = 5;
    sample(b, by_nccl, count, times, rounds);
    return rounds;
}

static void
measure(bench *b, size_t bytes)
{
    static double hoop[MOST_ROUNDS], peer[MOST_ROUNDS];
    size_t count = bytes / hp_dtype_size(b->dtype);
    int by_nccl = b->peer.comm != NULL, rounds = sample_well(b, 0, count, hoop);
    int peer_rounds = by_nccl ? sample_well(b, 1, count, peer) : 0;
    check(b, 0, count);
    if (by_nccl)
        check(b, 1, count);
    if (b->rank != 0)
        return;
    printf("%11zu %9s %10.1f %10.1f %10.1f", bytes, hp_dtype_name(b->dtype), hoop[rounds / 2], hoop[0],
           hoop[rounds - 1]);
    if (by_nccl)
        printf(" %10.1f %10.1f %10.1f %7.2f", peer[peer_rounds / 2], peer[0], peer[peer_rounds - 1],
               peer[peer_rounds / 2] / hoop[rounds / 2]);
    printf("\n");
    fflush(stdout);
}

static void
take_gpu(bench *b)
{
    hoop_error error = {.size = sizeof(error)};
    need_gpu(hp_cuda_ops.open(&b->device, NULL, &error), &error);
    need_gpu(hp_cuda_alloc(b->device, &b->in, b->largest, &error), &error);
    need_gpu(hp_cuda_alloc(b->device, &b->out, b->largest, &error), &error);
    need_gpu(hp_cuda_stream_open(b->device, &b->stream, &error), &error);
    b->host = malloc(b->largest);
    if (!b->host) {
        fprintf(stderr, "nccl_bench: no memory for %zu bytes\n", b->largest);
        exit(EXIT_FAILURE);
    }
    fill(b);
}

int
main(int argc, char **argv)
{
    bench b = {.dtype = HOOP_FLOAT32, .largest = (size_t)256 << 20, .rounds = 50};
    if (argc > 1)
        b.dtype = (hoop_dtype)type_named(argv[1]);
    if (argc > 2)
        b.largest = strtoull(argv[2], NULL, 10);
    if (argc > 3)
        b.rounds = (int)strtol(argv[3], NULL, 10);
    if ((b.dtype != HOOP_FLOAT32 && b.dtype != HOOP_BFLOAT16) || b.largest < 8 || b.rounds < 5 ||
        b.rounds > MOST_ROUNDS) {
        fprintf(stderr, "usage: hooprun -n N nccl_bench [DTYPE [LARGEST [ROUNDS]]]   (ROUNDS 5 to %d)\n", MOST_ROUNDS);
        return 2;
    }
    need(&b, hoop_comm_create(&b.comm, NULL), "hoop_comm_create");
    b.rank = hoop_comm_rank(b.comm);
    b.size = hoop_comm_size(b.comm);
    take_gpu(&b);
    join_nccl(&b);
    if (b.rank == 0)
        printf("# %d ranks, times in us: hoop median, min, max; NCCL median, min, max; NCCL/hoop\n", b.size);
    for (size_t bytes = 8; bytes <= b.largest; bytes *= bytes < 4096 ? 8 : 4)
        measure(&b, bytes);
    if (b.peer.comm)
        b.peer.destroy(b.peer.comm);
    need(&b, hoop_comm_destroy(b.comm), "hoop_comm_destroy");
    hp_cuda_stream_close(b.device, b.stream);
    hp_cuda_free(b.device, b.in);
    hp_cuda_free(b.device, b.out);
    b.device->ops->close(b.device);
    free(b.host);
    return b.wrong != 0;
}
