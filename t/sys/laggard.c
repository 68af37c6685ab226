/* SPDX-License-Identifier: MIT */
/*
 * laggard RANK MS N COUNT SECONDS: a program of N allreduces of COUNT floats, before each of which that rank sleeps; then all
 * ranks compute for so many seconds. For t/sys/vitals.t.
 */
#include "hoop.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void
nap(double seconds)
{
    struct timespec time = {.tv_sec = (time_t)seconds};
    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    nanosleep(&time, NULL);
}

int
main(int argc, char **argv)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_comm *comm = NULL;
    if (argc != 6)
        return 2;
    int late = atoi(argv[1]), n = atoi(argv[3]);
    size_t size = (size_t)atol(argv[4]);
    float *values = calloc(size, sizeof(*values));
    hoop_result result = values ? hoop_comm_create(&comm, NULL) : HOOP_ERR_NO_MEMORY;
    for (int i = 0; i < n && result == HOOP_SUCCESS; i++) {
        if (hoop_comm_rank(comm) == late)
            nap(atof(argv[2]) / 1e3);
        result = hoop_allreduce(values, values, size, HOOP_FLOAT32, HOOP_SUM, comm);
    }
    if (result == HOOP_SUCCESS)
        nap(atof(argv[5]));
    if (result != HOOP_SUCCESS) {
        hoop_comm_error(comm, &error);
        fprintf(stderr, "%s\n", error.text);
    }
    hoop_result left = hoop_comm_destroy(comm);
    free(values);
    return result != HOOP_SUCCESS || left != HOOP_SUCCESS;
}
