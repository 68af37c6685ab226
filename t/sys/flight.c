/* SPDX-License-Identifier: MIT */
/*
 * flight: a program for t/sys/flight.t. flight WAY [N]: after N allreduces and a barrier, rank 1 goes its own way, and the
 * others call another allreduce. If WAY is named or late, the barrier has the name loss, and the allreduce gradients. The late
 * rank comes when the others have failed, and all end when each has: files "failed.RANK" in this folder say so.
 */
#include "hoop.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const failed[] = {"failed.0", "failed.1", "failed.2"};

/* A minute at most, which is longer than any time limit of these tests. */
static void
await_failed(int rank)
{
    for (int i = 0; i < 6000 && access(failed[rank], F_OK) != 0; i++)
        usleep(10000);
}

static int
go_own_way(const char *way, hoop_comm *comm)
{
    float values[101] = {0};
    hoop_comm *part;
    if (strcmp(way, "sleep") == 0 || strcmp(way, "named") == 0)
        sleep(100);
    if (strcmp(way, "stop") == 0)
        raise(SIGSTOP);
    if (strcmp(way, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(way, "exit") == 0)
        _exit(0);
    if (strcmp(way, "more") == 0)
        return hoop_allreduce(values, values, 101, HOOP_FLOAT32, HOOP_SUM, comm);
    if (strcmp(way, "late") == 0) {
        await_failed(0);
        await_failed(2);
    }
    if (strcmp(way, "split") == 0)
        return hoop_comm_split(comm, 0, 0, &part);
    return HOOP_SUCCESS;
}

int
main(int argc, char **argv)
{
    float values[100] = {0};
    const char *way = argc > 1 ? argv[1] : "well";
    long count = argc > 2 ? strtol(argv[2], NULL, 10) : 3;
    int late = strcmp(way, "late") == 0, named = late || strcmp(way, "named") == 0;
    hoop_comm *comm;
    hoop_result result = hoop_comm_create(&comm, NULL);
    for (long i = 0; i < count && result == HOOP_SUCCESS; i++)
        result = hoop_allreduce(values, values, 100, HOOP_FLOAT32, HOOP_SUM, comm);
    if (result == HOOP_SUCCESS && named)
        result = hoop_comm_set_call_name(comm, "loss");
    if (result == HOOP_SUCCESS)
        result = hoop_barrier(comm);
    if (result == HOOP_SUCCESS && hoop_comm_rank(comm) == 1)
        result = go_own_way(way, comm);
    if (result == HOOP_SUCCESS && named)
        result = hoop_comm_set_call_name(comm, "gradients");
    if (result == HOOP_SUCCESS)
        result = hoop_allreduce(values, values, 100, HOOP_FLOAT32, HOOP_SUM, comm);
    if (result == HOOP_SUCCESS)
        return hoop_comm_destroy(comm);
    hoop_error error = {.size = sizeof(error)};
    hoop_comm_error(comm, &error);
    fprintf(stderr, "%s\n", error.text);
    if (late) {
        close(creat(failed[hoop_comm_rank(comm)], 0600));
        for (int i = 0; i < 3; i++)
            await_failed(i); /* before the first one ends the job */
    }
    return 1;
}
