/* SPDX-License-Identifier: MIT */
/*
 * mpi_bcast: hoop inside an MPI program. Rank 0 serves; one MPI_Bcast carries the address and the secret to the others.
 *     mpicc -o mpi_bcast mpi_bcast.c `pkg-config --cflags --libs hoop` && mpirun -n 4 ./mpi_bcast
 */
#include <hoop.h>
#include <mpi.h>
#include <stdio.h>

/* The start of the ring: what its ranks have to know. Empty: rank 0 could not start its server. */
typedef struct ring_start {
    char address[HOOP_SERVER_TEXT], secret[HOOP_SECRET_TEXT];
} ring_start;

static int
fail(const hoop_comm *comm)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_comm_error(comm, &error);
    fprintf(stderr, "mpi_bcast: %s\n", error.text);
    return 1;
}

/* Every rank of `world` calls it; *server is rank 0's. It prints what went wrong. */
static hoop_result
join(hoop_comm **comm, hoop_server **server, MPI_Comm world)
{
    int rank, size;
    char number[2][12];
    ring_start start = {.address = ""};
    hoop_config *config = hoop_config_new();
    hoop_result result = HOOP_SUCCESS;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    if (rank == 0) {
        result = hoop_secret_new(start.secret, sizeof(start.secret));
        if (result == HOOP_SUCCESS)
            result = hoop_config_set(config, "secret", start.secret);
        if (result == HOOP_SUCCESS)
            result = hoop_server_start(server, config);
        if (result == HOOP_SUCCESS)
            result = hoop_server_address(*server, start.address, sizeof(start.address));
        if (result != HOOP_SUCCESS)
            fail(NULL);
    }
    MPI_Bcast(&start, sizeof(start), MPI_BYTE, 0, world);
    if (!start.address[0]) {
        if (rank != 0)
            fprintf(stderr, "mpi_bcast: rank %d joins no ring: rank 0 could not start its server\n", rank);
        hoop_config_free(config);
        return HOOP_ERR_RENDEZVOUS;
    }
    snprintf(number[0], sizeof(number[0]), "%d", rank);
    snprintf(number[1], sizeof(number[1]), "%d", size);
    hoop_config_set(config, "rendezvous", start.address);
    hoop_config_set(config, "secret", start.secret);
    hoop_config_set(config, "rank", number[0]);
    hoop_config_set(config, "size", number[1]);
    result = hoop_comm_create(comm, config);
    if (result != HOOP_SUCCESS)
        fail(NULL);
    hoop_config_free(config);
    return result;
}

int
main(int argc, char **argv)
{
    hoop_comm *comm;
    hoop_server *server = NULL;
    int rank, size;
    MPI_Init(&argc, &argv);
    if (join(&comm, &server, MPI_COMM_WORLD) != HOOP_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, 1);
    rank = hoop_comm_rank(comm);
    size = hoop_comm_size(comm);
    double mine = 1.0 / (rank + 1), ours, theirs;
    if (hoop_allreduce(&mine, &ours, 1, HOOP_FLOAT64, HOOP_MAX, comm) != HOOP_SUCCESS)
        MPI_Abort(MPI_COMM_WORLD, fail(comm));
    MPI_Allreduce(&mine, &theirs, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    printf("rank %d of %d: hoop and MPI %s\n", rank, size, ours == theirs ? "agree" : "do not agree");
    hoop_comm_destroy(comm);
    hoop_server_stop(server);
    MPI_Finalize();
    return ours == theirs ? 0 : 1;
}
