/* SPDX-License-Identifier: MIT */
/*
 * splitter SPLITS [shrink|grow|join|early]: a program that splits its communicator so often, adds up in all and in each part, and then
 * loses its last rank and shrinks, or takes in a process that waits, or is that process, or waits for 5 s after its last rank
 * has left, for t/sys/comeback.t. It writes the number of each split that is done. What hoop says of an error goes to standard
 * error.
 */
#include "hoop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PAUSE_MS = 20 };

static void
check(hoop_result result, hoop_comm *comm, const char *what)
{
    hoop_error error = {.size = sizeof(error)};
    if (result == HOOP_SUCCESS)
        return;
    hoop_comm_error(comm, &error);
    fprintf(stderr, "%s: %s\n", what, error.text);
    _exit(1);
}

static void
add_up(hoop_comm *comm, const char *what)
{
    int one = 1;
    check(hoop_allreduce(&one, &one, 1, HOOP_INT32, HOOP_SUM, comm), comm, what);
    if (one == hoop_comm_size(comm))
        return;
    fprintf(stderr, "%s: %d of %d\n", what, one, hoop_comm_size(comm));
    _exit(1);
}

static void
split(hoop_comm *comm)
{
    hoop_comm *part;
    check(hoop_comm_split(comm, hoop_comm_rank(comm) % 2, 0, &part), comm, "split");
    add_up(part, "in a part");
    check(hoop_comm_destroy(part), NULL, "destroy a part");
}

int
main(int argc, char **argv)
{
    const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
    const char *then = argc > 2 ? argv[2] : "";
    hoop_comm *comm, *next = NULL;
    check(hoop_comm_create(&comm, NULL), NULL, "create");
    for (int k = 1; argc > 1 && k <= atoi(argv[1]); k++) {
        add_up(comm, "in all");
        split(comm);
        printf("%d\n", k);
        fflush(stdout);
        nanosleep(&pause, NULL);
    }
    if (strcmp(then, "join") == 0)
        add_up(comm, "as the last");
    if (strcmp(then, "shrink") == 0) {
        int one = 1;
        if (hoop_comm_rank(comm) == hoop_comm_size(comm) - 1)
            _exit(0);
        if (hoop_allreduce(&one, &one, 1, HOOP_INT32, HOOP_SUM, comm) == HOOP_SUCCESS)
            return 3;
        check(hoop_comm_shrink(comm, &next), comm, "shrink");
    }
    for (int grown = 0; strcmp(then, "grow") == 0 && !grown; nanosleep(&pause, NULL)) {
        check(hoop_comm_grow(comm, &next), comm, "grow");
        grown = next != comm;
    }
    if (strcmp(then, "early") == 0 && hoop_comm_rank(comm) < hoop_comm_size(comm) - 1)
        sleep(5);
    if (!next)
        return hoop_comm_destroy(comm) != HOOP_SUCCESS;
    add_up(next, "in the next");
    hoop_comm_destroy(comm);
    return hoop_comm_destroy(next) != HOOP_SUCCESS;
}
