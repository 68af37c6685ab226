/* SPDX-License-Identifier: MIT */
/*
 * sleeper RANK SECONDS [WORK [messages]]: a program of five allreduces, or of five messages from that rank to every other
 * one, in which that rank sleeps before the third, for t/sys/late.t. WORK: seconds that all of them compute before they
 * begin. It writes "up" when its ring is. What hoop says of an error goes to standard error.
 */
#include "hoop.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { COUNT = 1000 };

static void
nap(double seconds)
{
    struct timespec time = {.tv_sec = (time_t)seconds};
    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    nanosleep(&time, NULL);
}

static float values[COUNT];

static hoop_result
pass_on(int from, hoop_comm *comm)
{
    hoop_result result = HOOP_SUCCESS;
    if (hoop_comm_rank(comm) != from)
        return hoop_recv(values, COUNT, HOOP_FLOAT32, from, 0, comm);
    for (int to = 0; to < hoop_comm_size(comm) && result == HOOP_SUCCESS; to++)
        if (to != from)
            result = hoop_send(values, COUNT, HOOP_FLOAT32, to, 0, comm);
    return result;
}

int
main(int argc, char **argv)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_comm *comm;
    if (argc < 3 || hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        return 2;
    printf("up\n");
    fflush(stdout);
    nap(argc > 3 ? atof(argv[3]) : 0);
    for (int k = 1; k <= 5; k++) {
        if (k == 3 && hoop_comm_rank(comm) == atoi(argv[1]))
            nap(atof(argv[2]));
        hoop_result result = argc > 4 ? pass_on(atoi(argv[1]), comm)
                                      : hoop_allreduce(values, values, COUNT, HOOP_FLOAT32, HOOP_SUM, comm);
        if (result == HOOP_SUCCESS)
            continue;
        hoop_comm_error(comm, &error);
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}
