/* SPDX-License-Identifier: MIT */
/* mpi_bench: an MPI library's collectives under the harness of bench.h. */
#include "bench.h"

#include <mpi.h>

static void
allreduce(void *context, float *data, size_t count)
{
    (void)context;
    MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static int ranks;

static void
reduce_scatter(void *context, float *data, size_t count)
{
    (void)context; /* in place its result is the array's first block */
    MPI_Reduce_scatter_block(MPI_IN_PLACE, data, (int)count / ranks, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void
allgather(void *context, float *data, size_t count)
{
    (void)context;
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, (int)count / ranks, MPI_FLOAT, MPI_COMM_WORLD);
}

int
main(int argc, char **argv)
{
    void (*const kinds[])(void *, float *, size_t) = {allreduce, reduce_scatter, allgather};
    bench_peer peer = {.run = kinds[bench_kind_wanted()], .at_start = 1};
    int rank, size, bad;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    ranks = size;
    bench_join(rank, size);
    bad = bench_run(&peer);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return bad;
}
