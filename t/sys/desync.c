/* SPDX-License-Identifier: MIT */
/*
 * desync ROW VICTIM: a program for t/sys/desync.t. After six allreduces all ranks but the victim go on as one of them
 * did before; the victim does what the row says. A rank that has failed stays while there is a file "linger". Each prints
 * when it began to differ and when and how its own call failed: "RANK begins SECONDS", "RANK fails SECONDS TEXT", by the
 * clock that all processes of this machine share. Without arguments it prints that clock.
 */
#include "hoop.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BEFORE = 6, COUNT = 1000, LARGE = 1 << 20 };

static float values[LARGE];
static hoop_comm *last; /* the communicator of the last call */

/* NULL: not in this row, or not of this rank. */
typedef struct comms {
    hoop_comm *world, *other; /* all ranks */
    hoop_comm *most, *pair;   /* all but the last one; the last two */
} comms;

static hoop_result
reduce(size_t count, hoop_comm *comm)
{
    last = comm;
    return hoop_allreduce(values, values, count, HOOP_FLOAT32, HOOP_SUM, comm);
}

static hoop_result
train(hoop_comm *comm)
{
    hoop_result result = reduce(COUNT, comm);
    result = result ? result : hoop_broadcast(values, values, COUNT, HOOP_FLOAT32, 0, comm);
    return result ? result : hoop_barrier(comm);
}

static hoop_result
pass_by(hoop_comm *comm)
{
    hoop_result result = hoop_broadcast(values, values, COUNT, HOOP_FLOAT32, 0, comm);
    return result ? result : hoop_barrier(comm);
}

static hoop_result
split(hoop_comm *comm)
{
    hoop_comm *part = NULL;
    return hoop_comm_split(comm, 0, 0, &part);
}

/* Computes until the test ends it. */
static void
compute(void)
{
    for (;;)
        pause();
}

static hoop_result
differ(const char *row, const comms *c)
{
    hoop_comm *comm = c->world;
    if (strcmp(row, "computes") == 0 || strcmp(row, "chain") == 0)
        compute();
    if (strcmp(row, "stops") == 0)
        raise(SIGSTOP);
    if (strcmp(row, "killed") == 0)
        raise(SIGKILL);
    if (strcmp(row, "exits") == 0)
        exit(0);
    if (strcmp(row, "leaves") == 0)
        exit(hoop_comm_destroy(comm) != HOOP_SUCCESS);
    if (strcmp(row, "skips") == 0)
        return pass_by(comm);
    if (strcmp(row, "size") == 0)
        return reduce(COUNT + 1, comm);
    if (strcmp(row, "type") == 0)
        return hoop_allreduce(values, values, COUNT, HOOP_INT32, HOOP_SUM, comm);
    if (strcmp(row, "split") == 0)
        return split(comm);
    if (strcmp(row, "order") == 0) {
        hoop_result result = reduce(COUNT, c->other);
        return result ? result : reduce(COUNT, comm);
    }
    return train(comm);
}

/* In the row "chain" the last but one waits in the pair for the last one, and the others wait for it. */
static hoop_result
agree(const char *row, const comms *c)
{
    if (strcmp(row, "chain") == 0)
        return reduce(COUNT, c->pair ? c->pair : c->most);
    hoop_result result = train(c->world);
    return result || strcmp(row, "order") != 0 ? result : reduce(COUNT, c->other);
}

/* In the row "cut" all ranks do the same, until the test takes down a host's link. */
static hoop_result
repeat(const comms *c)
{
    hoop_result result;
    while ((result = reduce(LARGE, c->world)) == HOOP_SUCCESS)
        continue;
    return result;
}

static hoop_result
open_comms(const char *row, comms *c)
{
    hoop_result result = hoop_comm_create(&c->world, NULL);
    int rank = hoop_comm_rank(c->world), size = hoop_comm_size(c->world);
    if (!result && strcmp(row, "order") == 0)
        result = hoop_comm_split(c->world, 0, 0, &c->other);
    if (!result && strcmp(row, "chain") == 0)
        result = hoop_comm_split(c->world, rank < size - 1 ? 0 : -1, 0, &c->most);
    if (!result && strcmp(row, "chain") == 0)
        result = hoop_comm_split(c->world, rank >= size - 2 ? 0 : -1, 0, &c->pair);
    return result;
}

/* A rank that goes at once may be gone before the others are in the operation, of which its sentence then knows nothing. */
static void
let_others_enter(const char *row)
{
    if (strcmp(row, "exits") == 0 || strcmp(row, "leaves") == 0 || strcmp(row, "killed") == 0)
        usleep(300000);
}

static void
say(int rank, const char *what, const char *text)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%d %s %.3f %s\n", rank, what, (double)now.tv_sec + (double)now.tv_nsec / 1e9, text);
    fflush(stdout);
}

int
main(int argc, char **argv)
{
    hoop_error error = {.size = sizeof(error)};
    comms c = {0};
    if (argc < 3) {
        say(-1, "now", "");
        return 0;
    }
    hoop_result result = open_comms(argv[1], &c);
    int rank = hoop_comm_rank(c.world), late = atoi(argv[2]);
    for (int i = 0; i < BEFORE && !result; i++)
        result = reduce(COUNT, c.world);
    if (!result && rank == late)
        let_others_enter(argv[1]);
    if (!result)
        say(rank, "begins", "");
    if (!result && strcmp(argv[1], "cut") == 0)
        result = repeat(&c);
    else if (!result)
        result = rank == late ? differ(argv[1], &c) : agree(argv[1], &c);
    if (!result)
        return hoop_comm_destroy(c.world) != HOOP_SUCCESS;
    hoop_comm_error(last ? last : c.world, &error);
    say(rank, "fails", error.text);
    while (rank == late || access("linger", F_OK) == 0) /* the late one until hooprun stops it: another exits first */
        usleep(20000);
    return 1;
}
