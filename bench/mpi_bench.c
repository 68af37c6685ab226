/* SPDX-License-Identifier: MIT */
/* mpi_bench: an MPI library's MPI_Allreduce under the harness of bench.h. */
#include "bench.h"

#include <mpi.h>

static void
allreduce(void *context, float *data, size_t count)
{
    (void)context;
    MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

int
main(int argc, char **argv)
{
    bench_peer peer = {.allreduce = allreduce};
    int rank, size, bad;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    bench_join(rank, size);
    bad = bench_run(&peer);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return bad;
}
