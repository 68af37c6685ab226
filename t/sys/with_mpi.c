/* SPDX-License-Identifier: MIT */
/*
 * with_mpi: a program that uses MPI as well, for t/sys/launchers.t, which compiles it with mpicc.
 *     with_mpi after      makes its ring before MPI_Init, and uses both afterwards
 *     with_mpi before     makes it between MPI_Init and MPI_Finalize
 * It prints "rank 1: right", or hoop's sentence, and ends MPI in any case.
 */
#include <hoop.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int
adds_up(hoop_comm *comm)
{
    int size = hoop_comm_size(comm), sum = hoop_comm_rank(comm) + 1, of_mpi = sum;
    hoop_allreduce(&sum, &sum, 1, HOOP_INT32, HOOP_SUM, comm);
    MPI_Allreduce(MPI_IN_PLACE, &of_mpi, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return sum == of_mpi && sum == size * (size + 1) / 2;
}

int
main(int argc, char **argv)
{
    hoop_comm *comm = NULL;
    hoop_error error = {.size = sizeof(error)};
    hoop_result result = HOOP_SUCCESS;
    int after = argc > 1 && strcmp(argv[1], "after") == 0, rank;
    if (after)
        result = hoop_comm_create(&comm, NULL);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!after)
        result = hoop_comm_create(&comm, NULL);
    hoop_comm_error(NULL, &error);
    if (result == HOOP_SUCCESS)
        printf("rank %d: %s\n", rank, adds_up(comm) ? "right" : "wrong");
    else
        printf("rank %d: %s\n", rank, error.text);
    hoop_comm_destroy(comm);
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
