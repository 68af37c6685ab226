/* SPDX-License-Identifier: MIT */
/*
 * fork_pipe: a program that makes a ring of its own workers, without a launcher. The parent serves; each worker reads
 * the address and the secret from a pipe, as it could from a store or a socket.     ./fork_pipe 4
 */
#include <hoop.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 1000 }; /* workers */

/* The start of the ring: what its ranks have to know. */
typedef struct ring_start {
    char address[HOOP_SERVER_TEXT], secret[HOOP_SECRET_TEXT];
} ring_start;

static int
fail(const hoop_comm *comm)
{
    hoop_error error = {.size = sizeof(error)};
    hoop_comm_error(comm, &error);
    fprintf(stderr, "fork_pipe: %s\n", error.text);
    return 1;
}

static int
work(int rank, int size, int from)
{
    ring_start start;
    char number[2][12];
    hoop_comm *comm;
    int sum = rank + 1;
    if (read(from, &start, sizeof(start)) != sizeof(start))
        return 1; /* the parent has ended */
    snprintf(number[0], sizeof(number[0]), "%d", rank);
    snprintf(number[1], sizeof(number[1]), "%d", size);
    hoop_config *config = hoop_config_new();
    hoop_config_set(config, "rendezvous", start.address);
    hoop_config_set(config, "secret", start.secret);
    hoop_config_set(config, "rank", number[0]);
    hoop_config_set(config, "size", number[1]);
    hoop_result result = hoop_comm_create(&comm, config);
    hoop_config_free(config);
    if (result != HOOP_SUCCESS)
        return fail(NULL);
    if (hoop_allreduce(&sum, &sum, 1, HOOP_INT32, HOOP_SUM, comm) != HOOP_SUCCESS)
        return fail(comm);
    printf("rank %d of %d: the sum of 1 to %d is %d\n", rank, size, size, sum);
    return hoop_comm_destroy(comm) == HOOP_SUCCESS ? 0 : fail(NULL);
}

/* Starts a worker; returns where its parent writes. */
static int
start_worker(int rank, int size)
{
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[1]);
        exit(work(rank, size, ends[0]));
    }
    close(ends[0]);
    return pid < 0 ? -1 : ends[1];
}

int
main(int argc, char **argv)
{
    char *end = "";
    long size = argc > 1 ? strtol(argv[1], &end, 10) : 4;
    int status, failed = 0;
    if (argc > 2 || *end || size < 1 || size > MOST) {
        fprintf(stderr, "usage: fork_pipe [WORKERS], of which there are 1 to %d\n", MOST);
        return 2;
    }
    ring_start start = {.address = ""};
    hoop_server *server;
    hoop_config *config = hoop_config_new();
    /* All ranks are on this host. With another address, such as 0.0.0.0:0, they may be on any. */
    if (hoop_config_set(config, "rendezvous", "127.0.0.1:0") != HOOP_SUCCESS ||
        hoop_secret_new(start.secret, sizeof(start.secret)) != HOOP_SUCCESS ||
        hoop_config_set(config, "secret", start.secret) != HOOP_SUCCESS ||
        hoop_server_start(&server, config) != HOOP_SUCCESS)
        return fail(NULL);
    hoop_config_free(config);
    hoop_server_address(server, start.address, sizeof(start.address));
    for (int rank = 0; rank < size; rank++) {
        int to = start_worker(rank, (int)size);
        if (to < 0 || write(to, &start, sizeof(start)) != sizeof(start))
            failed = 1;
        close(to);
    }
    while (wait(&status) > 0)
        failed |= status != 0;
    hoop_server_stop(server);
    return failed;
}
