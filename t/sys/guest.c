/* SPDX-License-Identifier: MIT */
/*
 * guest: a rank of t/sys/launchers.t and t/sys/slurm.t, for any launcher. It makes a ring twice, the second one while a
 * part of the first is left, then once more after all are gone; each rank's sums must be right. It prints one line:
 * "rank 1 of 3: right, 0 more threads, 0 more sockets" (than before, and than a rank has).
 *     guest          does that
 *     guest fork     does that, and after the first ring a child of it tries to be a rank, and says what it heard
 *     guest again    does that, and tries the first ring up to three times
 *     guest hold     makes one ring, says "up", and keeps it until its standard input ends
 */
#include "hoop.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int
fail(const char *what)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_comm_error(NULL, &error);
    fprintf(stderr, "guest: %s: %s\n", what, error.text);
    return 1;
}

/* 1: an allreduce gives the sum that all ranks expect. */
static int
adds_up(hoop_comm *comm)
{
    int size = hoop_comm_size(comm), sum = hoop_comm_rank(comm) + 1;
    return hoop_allreduce(&sum, &sum, 1, HOOP_INT32, HOOP_SUM, comm) == HOOP_SUCCESS && sum == size * (size + 1) / 2;
}

static int
entries(const char *folder)
{
    DIR *dir = opendir(folder);
    int n = 0;
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n - 2;
}

static int
tcp_sockets(void)
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++) {
        int domain = 0;
        socklen_t length = sizeof(domain);
        getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length);
        n += domain == AF_INET || domain == AF_INET6;
    }
    return n;
}

static int
hold(hoop_comm *comm)
{
    char end;
    printf("up\n");
    fflush(stdout);
    ssize_t n = read(0, &end, 1);
    return hoop_comm_destroy(comm) != HOOP_SUCCESS || n != 0;
}

/* In a child the launcher's variables still say that it is this rank. */
static int
child_is_refused(void)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        hoop_comm *comm;
        hoop_error error = {.size = sizeof(error)};
        alarm(20);
        hoop_result result = hoop_comm_create(&comm, NULL);
        hoop_comm_error(NULL, &error);
        fprintf(stderr, "child: %s\n", error.text);
        exit(result != HOOP_ERR_RENDEZVOUS); /* not _exit: its end must not be the parent's goodbye */
    }
    return waitpid(child, &status, 0) == child && status == 0;
}

/* The first ring, in so many tries. */
static hoop_result
create(hoop_comm **comm, int tries)
{
    hoop_result result;
    do {
        result = hoop_comm_create(comm, NULL);
        if (result != HOOP_SUCCESS)
            fail("the first ring");
    } while (result != HOOP_SUCCESS && --tries > 0);
    return result;
}

int
main(int argc, char **argv)
{
    hoop_comm *first, *part, *second;
    int threads = entries("/proc/self/task"), sockets = tcp_sockets();
    if (create(&first, argc > 1 && strcmp(argv[1], "again") == 0 ? 3 : 1) != HOOP_SUCCESS)
        return 1;
    if (!adds_up(first))
        return fail("its sum");
    threads = entries("/proc/self/task") - threads;
    sockets = tcp_sockets() - sockets;
    if (argc > 1 && strcmp(argv[1], "hold") == 0)
        return hold(first);
    if (argc > 1 && strcmp(argv[1], "fork") == 0 && !child_is_refused())
        return fail("a child");
    int rank = hoop_comm_rank(first), size = hoop_comm_size(first);
    if (hoop_comm_split(first, rank % 2, rank, &part) != HOOP_SUCCESS || !adds_up(part))
        return fail("a part of it");
    if (hoop_comm_destroy(first) != HOOP_SUCCESS)
        return fail("the end of the first ring");
    if (hoop_comm_create(&second, NULL) != HOOP_SUCCESS || !adds_up(second) || !adds_up(part))
        return fail("the second ring");
    if (hoop_comm_destroy(second) != HOOP_SUCCESS || hoop_comm_destroy(part) != HOOP_SUCCESS)
        return fail("the end of the second ring");
    if (hoop_comm_create(&first, NULL) != HOOP_SUCCESS || !adds_up(first) || hoop_comm_destroy(first) != HOOP_SUCCESS)
        return fail("the third ring");
    printf("rank %d of %d: right, %d more threads, %d more sockets\n", rank, size, threads, sockets);
    return 0;
}
