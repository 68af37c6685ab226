/* SPDX-License-Identifier: MIT */
/*
 * desync_waits ROW: a program for t/sys/desync_waits.t. Ranks wait in splits and in messages, for the last rank, which
 * computes. Each prints when it begins, and the error of its own call: "RANK begins", "RANK fails TEXT". A rank that has failed
 * stays while there is a file "linger".
 */
#include "hoop.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BEFORE = 6, COUNT = 1000, TAG = 3 };

static float values[COUNT];
static hoop_comm *last; /* the communicator of the last call */
static int rank, size;

static hoop_result
reduce(hoop_comm *comm)
{
    last = comm;
    return hoop_allreduce(values, values, COUNT, HOOP_FLOAT32, HOOP_SUM, comm);
}

static hoop_result
receive(hoop_comm *comm, int from)
{
    last = comm;
    return hoop_recv(values, 5, HOOP_FLOAT32, from, TAG, comm);
}

static hoop_result
split(hoop_comm *comm)
{
    hoop_comm *part = NULL;
    last = comm;
    return hoop_comm_split(comm, 0, 0, &part);
}

/* Computes until the test ends it. */
static hoop_result
compute(void)
{
    while (pause() < 0)
        continue;
    return HOOP_SUCCESS;
}

/* The last but one is in a split of the last two, or receives from the last one; the others wait for it. */
static hoop_result
chain(hoop_comm *world, hoop_comm *most, hoop_comm *pair)
{
    if (rank == size - 1)
        return compute();
    if (rank < size - 2)
        return reduce(most);
    return pair ? split(pair) : receive(world, size - 1);
}

/* All ranks work in another communicator, and the world rests. */
static hoop_result
work(hoop_comm *comm)
{
    hoop_result result;
    while ((result = reduce(comm)) == HOOP_SUCCESS)
        usleep(2000);
    return result;
}

static hoop_result
differ(const char *row, hoop_comm *world, hoop_comm *most, hoop_comm *pair)
{
    if (strcmp(row, "splits") == 0)
        return rank == size - 1 ? compute() : split(world);
    if (strcmp(row, "message") == 0)
        return rank == 0 ? receive(world, size - 1) : compute();
    if (strcmp(row, "works") == 0)
        return work(most);
    return chain(world, most, pair);
}

static hoop_result
open_comms(const char *row, hoop_comm **world, hoop_comm **most, hoop_comm **pair)
{
    hoop_result result = hoop_comm_create(world, NULL);
    int works = strcmp(row, "works") == 0, splits = strcmp(row, "split") == 0,
        chains = splits || strcmp(row, "recv") == 0;
    rank = hoop_comm_rank(*world);
    size = hoop_comm_size(*world);
    for (int i = 0; i < BEFORE && !result; i++)
        result = reduce(*world);
    if (!result && (works || chains))
        result = hoop_comm_split(*world, works || rank < size - 1 ? 0 : -1, 0, most);
    if (!result && splits)
        result = hoop_comm_split(*world, rank >= size - 2 ? 0 : -1, 0, pair);
    return result;
}

static void
say(const char *what, const char *text)
{
    printf("%d %s %s\n", rank, what, text);
    fflush(stdout);
}

int
main(int argc, char **argv)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_comm *world = NULL, *most = NULL, *pair = NULL;
    if (argc < 2)
        return 2;
    hoop_result result = open_comms(argv[1], &world, &most, &pair);
    if (!result)
        say("begins", "");
    if (!result)
        result = differ(argv[1], world, most, pair);
    hoop_comm_error(last, &error);
    say("fails", error.text);
    while (access("linger", F_OK) == 0)
        usleep(20000);
    return 1;
}
