/* SPDX-License-Identifier: MIT */
/*
 * recovery: what faults cost those that go on, by the slowest rank's time. For one machine, whose ranks have one clock.
 *
 *     hooprun -n 8 --elastic 2 bench/recovery 2           two ranks are lost, one after the other: until the operation of
 *                                                         the others fails, and from there until the first one of the
 *                                                         smaller ring is over
 *     hooprun -n 8 --elastic 7:8 --max-restarts 5 bench/recovery grow 5
 *                                                         after each loss the rank is started again and joins: from the
 *                                                         call of hoop_comm_grow that takes it in until the first operation
 *                                                         of the larger ring is over
 *     HOOP_SHM=0 HOOP_LINK_REPAIR=all hooprun -n 8 bench/recovery repair 5
 *                                                         all connections of rank 1 with other ranks are reset: until the
 *                                                         operation in which that happens is over
 */
#include <arpa/inet.h>
#include <hoop.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { OPERATIONS = 1000, DESCRIPTORS = 1024 };

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
    fprintf(stderr, "recovery: %s\n", error.text);
    exit(1);
}

static double
greatest(hoop_comm *comm, double mine)
{
    double result;
    check(comm, hoop_allreduce(&mine, &result, 1, HOOP_FLOAT64, HOOP_MAX, comm));
    return result;
}

/* The last rank dies between two operations. The one before carries its time, so that the others have it. */
static double
lose(hoop_comm *comm)
{
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

static hoop_comm *
shrink(hoop_comm *comm)
{
    hoop_comm *rest;
    double died = lose(comm), told = now();
    check(comm, hoop_comm_shrink(comm, &rest));
    hoop_comm_destroy(comm);
    check(rest, hoop_barrier(rest));
    double ready = now(), last_told = greatest(rest, told - died), last_ready = greatest(rest, ready - told);
    if (hoop_comm_rank(rest) == 0)
        printf("%d ranks are left: told after %.1f ms, %.1f ms to go on\n", hoop_comm_size(rest), 1e3 * last_told,
               1e3 * last_ready);
    return rest;
}

/* Takes in who waits, once somebody does. */
static hoop_comm *
grow(hoop_comm *comm)
{
    const struct timespec pause = {.tv_nsec = 50000000};
    hoop_comm *larger = comm;
    double began = 0;
    for (int size = hoop_comm_size(comm); hoop_comm_size(larger) == size;) {
        nanosleep(&pause, NULL);
        check(comm, hoop_barrier(comm));
        began = now();
        check(comm, hoop_comm_grow(comm, &larger));
    }
    hoop_comm_destroy(comm);
    check(larger, hoop_barrier(larger));
    double took = greatest(larger, now() - began);
    if (hoop_comm_rank(larger) == 0)
        printf("%d ranks again: %.1f ms to grow\n", hoop_comm_size(larger), 1e3 * took);
    return larger;
}

/* The connections with other ranks, that is all but those with the port of the server. */
static void
reset_connections(void)
{
    const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    const char *server = getenv("HOOP_RENDEZVOUS");
    int port = server ? atoi(strrchr(server, ':') + 1) : 0;
    for (int fd = 3; fd < DESCRIPTORS; fd++) {
        struct sockaddr_in peer;
        socklen_t n = sizeof(peer);
        if (getpeername(fd, (struct sockaddr *)&peer, &n) == 0 && peer.sin_family == AF_INET &&
            ntohs(peer.sin_port) != port)
            connect(fd, &nobody, sizeof(nobody));
    }
}

static void
repair(hoop_comm *comm)
{
    hoop_stats stats = {.size = sizeof(stats)};
    for (int i = 0; i < OPERATIONS; i++)
        check(comm, hoop_barrier(comm));
    double began = now();
    if (hoop_comm_rank(comm) == 1)
        reset_connections();
    check(comm, hoop_barrier(comm));
    double took = greatest(comm, now() - began);
    check(comm, hoop_comm_stats(comm, &stats));
    double repairs = greatest(comm, (double)stats.repairs);
    if (hoop_comm_rank(comm) == 0)
        printf("%d ranks: %.1f ms to repair; a rank has made up to %.0f connections again\n", hoop_comm_size(comm),
               1e3 * took, repairs);
}

/* A rank that has joined calls what grow does, and hears how often it has been done. */
static hoop_comm *
lose_and_grow(hoop_comm *comm, int times)
{
    double done = 0;
    if (getenv("HOOP_JOIN")) {
        check(comm, hoop_barrier(comm));
        greatest(comm, 0);
    }
    while ((done = greatest(comm, done)) < times) {
        comm = grow(shrink(comm));
        done++;
    }
    return comm;
}

int
main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "shrink";
    int times = argc > 1 ? atoi(argv[argc - 1]) : 1, repairs = strcmp(what, "repair") == 0;
    hoop_comm *comm;
    check(NULL, hoop_comm_create(&comm, NULL));
    if (times < 1 || (strcmp(what, "shrink") == 0 && times >= hoop_comm_size(comm))) {
        fprintf(stderr, "recovery: [repair|grow] TIMES; without a word at most as often as there are other ranks\n");
        return 1;
    }
    if (strcmp(what, "grow") == 0)
        comm = lose_and_grow(comm, times);
    for (int i = 0; i < times && strcmp(what, "grow") != 0; i++)
        if (repairs)
            repair(comm);
        else
            comm = shrink(comm);
    check(comm, hoop_comm_destroy(comm));
    return 0;
}
