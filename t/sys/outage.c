/* SPDX-License-Identifier: MIT */
/*
 * A rank of outage_netns.t: WHAT SECONDS [RANK]. It writes "up" when its ring is, and at the end "RESULT RANK SECONDS TEXT": its
 * error and the rank in that, 0 and -1 without one, and how long it ran since "up", or since OUTAGE_AFTER if that is later.
 *     op        all ranks are in allreduces for so long, and compare each sum
 *     idle      all compute for so long
 *     late      RANK does, and the others wait for it in a barrier,
 *     split     in a split,
 *     message   or, one of them, in a receive from it
 *     leaver    RANK computes for so long, and leaves; the others exchange messages for SECONDS + 8
 *     broken    all compute for so long; then RANK's connections break, and all meet in a barrier
 *     first     all compute for so long; then RANK sends to rank 0, on a connection that does not exist yet
 * OUTAGE_TIMEOUT_MS, if set, is its own peer_timeout_ms. OUTAGE_AFTER, if set, is a file: who computes begins when it
 * is there.
 */
#include "hoop.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 100000, PAUSE_US = 100000, LOOK_US = 20000 };

static double
now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t); /* as a file has it */
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* When OUTAGE_AFTER was made; 0: it is not set, or not there. */
static double
made(void)
{
    const char *after = getenv("OUTAGE_AFTER");
    struct stat file;
    return after && stat(after, &file) == 0 ? (double)file.st_mtim.tv_sec + (double)file.st_mtim.tv_nsec / 1e9 : 0;
}

static void
compute(double seconds)
{
    struct timespec rest = {(time_t)seconds, 0};
    while (getenv("OUTAGE_AFTER") && made() <= 0)
        usleep(LOOK_US);
    nanosleep(&rest, NULL);
}

static void
break_connections(void)
{
    struct sockaddr_in peer;
    for (int fd = 3; fd < 1024; fd++) {
        socklen_t length = sizeof(peer);
        if (getpeername(fd, (struct sockaddr *)&peer, &length) == 0 && peer.sin_family == AF_INET)
            shutdown(fd, SHUT_RDWR);
    }
}

static hoop_result
keep_reducing(hoop_comm *comm, int rank, int size, double seconds)
{
    static float in[COUNT], out[COUNT];
    double until = now() + seconds;
    for (int turn = 1;; turn++) {
        usleep(PAUSE_US); /* for the sake of what runs beside this job */
        for (int i = 1; i < COUNT; i++)
            in[i] = (float)((i + turn + rank) % 64);
        in[0] = rank == 0 && now() > until;
        hoop_result result = hoop_allreduce(in, out, COUNT, HOOP_FLOAT32, HOOP_SUM, comm);
        if (result != HOOP_SUCCESS)
            return result;
        for (int i = 1; i < COUNT; i++) {
            float sum = 0;
            for (int r = 0; r < size; r++)
                sum += (float)((i + turn + r) % 64);
            if (out[i] != sum) {
                printf("wrong sum in turn %d\n", turn);
                exit(3);
            }
        }
        if (out[0] > 0)
            return HOOP_SUCCESS;
    }
}

/* Rank 0 tells rank 1 when it is over. */
static hoop_result
exchange(hoop_comm *comm, int rank, double until)
{
    float more = 1;
    hoop_result result = HOOP_SUCCESS;
    while (result == HOOP_SUCCESS && more > 0) {
        usleep(PAUSE_US);
        more = now() < until;
        result =
            rank == 0 ? hoop_send(&more, 1, HOOP_FLOAT32, 1, 0, comm) : hoop_recv(&more, 1, HOOP_FLOAT32, 0, 0, comm);
    }
    return result;
}

static hoop_result
act(hoop_comm *comm, const char *what, int rank, int size, double seconds, int late)
{
    hoop_comm *part = NULL;
    float word = 1;
    if (strcmp(what, "op") == 0)
        return keep_reducing(comm, rank, size, seconds);
    if (strcmp(what, "idle") == 0 || strcmp(what, "first") == 0 || strcmp(what, "broken") == 0 || rank == late)
        compute(seconds);
    if (strcmp(what, "broken") == 0 && rank == late)
        break_connections();
    if (strcmp(what, "split") == 0) {
        hoop_result result = hoop_comm_split(comm, 0, 0, &part);
        return result ? result : hoop_comm_destroy(part);
    }
    if (strcmp(what, "leaver") == 0)
        return rank == late ? HOOP_SUCCESS : exchange(comm, rank, now() + seconds + 8);
    int message = strcmp(what, "message") == 0 || strcmp(what, "first") == 0;
    if (message && rank == late)
        return hoop_send(&word, 1, HOOP_FLOAT32, 0, 0, comm);
    if (message)
        return rank == 0 ? hoop_recv(&word, 1, HOOP_FLOAT32, late, 0, comm) : HOOP_SUCCESS;
    return hoop_barrier(comm);
}

int
main(int argc, char **argv)
{
    hoop_comm *comm;
    hoop_error error = {.size = sizeof(error), .rank = -1};
    hoop_config *config = hoop_config_new();
    const char *own = getenv("OUTAGE_TIMEOUT_MS");
    if (own)
        hoop_config_set(config, "peer_timeout_ms", own);
    if (argc < 3 || hoop_comm_create(&comm, config) != HOOP_SUCCESS) {
        hoop_comm_error(NULL, &error);
        printf("no ring: %s\n", error.text);
        return 2;
    }
    hoop_config_free(config);
    int rank = hoop_comm_rank(comm), size = hoop_comm_size(comm);
    hoop_result result = hoop_barrier(comm);
    printf("up\n");
    fflush(stdout);
    double start = now();
    if (result == HOOP_SUCCESS)
        result = act(comm, argv[1], rank, size, atof(argv[2]), argc > 3 ? atoi(argv[3]) : -1);
    if (result == HOOP_SUCCESS && strcmp(argv[1], "op") != 0 && strcmp(argv[1], "leaver") != 0)
        result = hoop_barrier(comm);
    double took = now() - (made() > start ? made() : start);
    if (result != HOOP_SUCCESS)
        hoop_comm_error(comm, &error);
    if (result != HOOP_SUCCESS && error.code == HOOP_SUCCESS)
        hoop_comm_error(NULL, &error);
    printf("%d %d %.1f %s\n", (int)result, result ? error.rank : -1, took, result ? error.text : "");
    hoop_comm_destroy(comm);
    return result != HOOP_SUCCESS;
}
