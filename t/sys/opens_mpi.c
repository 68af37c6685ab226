/* SPDX-License-Identifier: MIT */
/*
 * opens_mpi: a program that is not linked with MPI and opens it as Python does with an extension, so that its names are
 * not global. For t/sys/launchers.t. It prints "ring: right", or hoop's sentence, and ends MPI in any case.
 *     opens_mpi LIBRARY before    between MPI_Init and MPI_Finalize it makes a ring
 *     opens_mpi LIBRARY loaded    it opens the library, makes a ring, and then calls MPI_Init
 */
#include "hoop.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static int
make_ring(void)
{
    hoop_comm *comm = NULL;
    hoop_error error = {.size = sizeof(error)};
    int sum = 1;
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS ||
        hoop_allreduce(&sum, &sum, 1, HOOP_INT32, HOOP_SUM, comm) != HOOP_SUCCESS) {
        hoop_comm_error(NULL, &error);
        printf("ring: %s\n", error.text);
        return 0;
    }
    printf("ring: %s\n", sum == hoop_comm_size(comm) ? "right" : "wrong");
    return hoop_comm_destroy(comm) == HOOP_SUCCESS;
}

int
main(int argc, char **argv)
{
    void *library = dlopen(argc == 3 ? argv[1] : "", RTLD_NOW | RTLD_LOCAL);
    int (*init)(int *, char ***), (*finalize)(void);
    if (!library)
        return 2;
    void *at[] = {dlsym(library, "MPI_Init"), dlsym(library, "MPI_Finalize")};
    memcpy(&init, &at[0], sizeof(init));
    memcpy(&finalize, &at[1], sizeof(finalize));
    if (strcmp(argv[2], "loaded") == 0)
        make_ring();
    if (init(&argc, &argv) != 0)
        return 3;
    make_ring();
    return finalize();
}
