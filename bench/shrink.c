/* SPDX-License-Identifier: MIT */
/*
 * shrink: what the loss of a rank costs those that are left: until their operation fails, and from there until the first
 * operation of the smaller ring is over. For one machine, whose ranks have one clock.
 *
 *     hooprun -n 8 --elastic 2 bench/shrink 5      five losses, one after the other
 */
#include <hoop.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double
now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void
check(hoop_comm *comm, hoop_result result)
{
    hoop_error error = {.size = sizeof(error)};
    if (result == HOOP_SUCCESS)
        return;
    hoop_comm_error(comm, &error);
    fprintf(stderr, "shrink: %s\n", error.text);
    exit(1);
}

/* The last rank dies between two operations. The one before carries its time, so that the others have it. */
static double
lose(hoop_comm *comm)
{
    enum { OPERATIONS = 1000 };
    int dies = hoop_comm_rank(comm) == hoop_comm_size(comm) - 1;
    double died = 0;
    for (int i = 0;; i++) {
        double mine = dies ? now() : 0, last = 0;
        if (hoop_allreduce(&mine, &last, 1, HOOP_FLOAT64, HOOP_MAX, comm) != HOOP_SUCCESS)
            return died;
        died = last;
        if (dies && i == OPERATIONS)
            kill(getpid(), SIGKILL);
    }
}

int
main(int argc, char **argv)
{
    int losses = argc > 1 ? atoi(argv[1]) : 1;
    hoop_comm *comm, *rest;
    check(NULL, hoop_comm_create(&comm, NULL));
    if (losses < 1 || losses >= hoop_comm_size(comm)) {
        if (hoop_comm_rank(comm) == 0)
            fprintf(stderr, "shrink: the number of losses is 1 to %d\n", hoop_comm_size(comm) - 1);
        return 1;
    }
    for (int i = 0; i < losses; i++) {
        double died = lose(comm), told = now(), times[2], slowest[2];
        check(comm, hoop_comm_shrink(comm, &rest));
        hoop_comm_destroy(comm);
        comm = rest;
        check(comm, hoop_barrier(comm));
        times[0] = told - died;
        times[1] = now() - told;
        check(comm, hoop_allreduce(times, slowest, 2, HOOP_FLOAT64, HOOP_MAX, comm));
        if (hoop_comm_rank(comm) == 0)
            printf("%d ranks left: told after %.1f ms, %.1f ms to go on\n", hoop_comm_size(comm), 1e3 * slowest[0],
                   1e3 * slowest[1]);
    }
    check(comm, hoop_comm_destroy(comm));
    return 0;
}
