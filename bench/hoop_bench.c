/* SPDX-License-Identifier: MIT */
/*
 * hoop_bench: hoop under the harness of bench.h. A program of the public interface only; started by hooprun. BENCH_HOOP
 * says how an array is reduced: "fused", as tensors of 4 KiB in one group; "apart", the same with a call for each that
 * waits; otherwise at once.
 */
#include "bench.h"
#include "hoop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSOR = 4096 / sizeof(float) };

static void
must(hoop_result result, const hoop_comm *comm)
{
    hoop_error error = {.size = sizeof(error)};
    if (result == HOOP_SUCCESS)
        return;
    hoop_comm_error(comm, &error);
    fprintf(stderr, "hoop_bench: %s\n", error.text);
    exit(1);
}

static void
allreduce(void *context, float *data, size_t count)
{
    hoop_comm *comm = context;
    must(hoop_allreduce(data, data, count, HOOP_FLOAT32, HOOP_SUM, comm), comm);
}

/* In place: a rank's block lies in the array. */
static void
reduce_scatter(void *context, float *data, size_t count)
{
    hoop_comm *comm = context;
    size_t each = count / (size_t)hoop_comm_size(comm);
    float *own = data + (size_t)hoop_comm_rank(comm) * each;
    must(hoop_reduce_scatter(data, own, each, HOOP_FLOAT32, HOOP_SUM, comm), comm);
}

static void
allgather(void *context, float *data, size_t count)
{
    hoop_comm *comm = context;
    size_t each = count / (size_t)hoop_comm_size(comm);
    must(hoop_allgather(data + (size_t)hoop_comm_rank(comm) * each, data, each, HOOP_FLOAT32, comm), comm);
}

/*
 * Tensor i of n. Neighbours in the group are no neighbours in memory, as a program's tensors are none; 7919 is a prime, so
 * each has its turn unless n is a multiple of it, where the plain order must do.
 */
static void
reduce_tensor(hoop_comm *comm, float *data, size_t count, size_t i, size_t n)
{
    size_t first = (n % 7919 ? i * 7919 % n : i) * TENSOR;
    float *tensor = data + first;
    size_t length = count - first < TENSOR ? count - first : TENSOR;
    must(hoop_allreduce(tensor, tensor, length, HOOP_FLOAT32, HOOP_SUM, comm), comm);
}

static void
allreduce_fused(void *context, float *data, size_t count)
{
    hoop_comm *comm = context;
    size_t n = (count + TENSOR - 1) / TENSOR;
    must(hoop_group_start(comm), comm);
    for (size_t i = 0; i < n; i++)
        reduce_tensor(comm, data, count, i, n);
    must(hoop_group_end(comm), comm);
}

static void
allreduce_apart(void *context, float *data, size_t count)
{
    size_t n = (count + TENSOR - 1) / TENSOR;
    for (size_t i = 0; i < n; i++)
        reduce_tensor(context, data, count, i, n);
}

int
main(void)
{
    hoop_comm *comm;
    void (*const kinds[])(void *, float *, size_t) = {allreduce, reduce_scatter, allgather};
    bench_peer peer = {.run = kinds[bench_kind_wanted()]};
    const char *how = getenv("BENCH_HOOP"), *wire = getenv("HOOP_WIRE_DTYPE");
    int bad;
    if (how && strcmp(how, "fused") == 0)
        peer.run = allreduce_fused;
    else if (how && strcmp(how, "apart") == 0)
        peer.run = allreduce_apart;
    if (wire && strcmp(wire, "e4m3") == 0) /* the addends, then the sum, to the nearest with 4 bits */
        peer.within = 2.0625 / 16;
    must(hoop_comm_create(&comm, NULL), NULL);
    peer.context = comm;
    bench_join(hoop_comm_rank(comm), hoop_comm_size(comm));
    bad = bench_run(&peer);
    hoop_comm_destroy(comm);
    return bad;
}
