/* SPDX-License-Identifier: MIT */
/*
 * crew: eight threads of each rank make, split, use and destroy communicators, of jobs of their own, all behind one
 * port, while strangers knock at it. Under the thread sanitizer too.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 2, THREADS = 8, ROUNDS = 8, LIMIT = 200, KNOCKERS = 40 };

static party p;

typedef struct hand {
    pthread_t thread;
    int number, bad;
    char text[256];
} hand;

static int
adds_up(hoop_comm *comm)
{
    float x[4000];
    int size = hoop_comm_size(comm);
    for (int i = 0; i < 4000; i++)
        x[i] = (float)(hoop_comm_rank(comm) + i % 5);
    if (hoop_allreduce(x, x, 4000, HOOP_FLOAT32, HOOP_SUM, comm) != HOOP_SUCCESS)
        return 0;
    for (int i = 0; i < 4000; i++)
        if (x[i] != (float)(size * (size - 1) / 2 + size * (i % 5)))
            return 0;
    return 1;
}

/* One communicator of the thread's own, and two that come from it. */
static int
one_round(const hand *h, int round)
{
    char job[64];
    hoop_comm *comm = NULL, *copy = NULL, *part = NULL;
    hoop_config *config = hoop_config_new();
    snprintf(job, sizeof(job), "%s-%d-%d", getenv("HOOP_JOB"), h->number, round);
    hoop_config_set(config, "job", job);
    int good = hoop_comm_create(&comm, config) == HOOP_SUCCESS && adds_up(comm) &&
               hoop_comm_split(comm, 0, -hoop_comm_rank(comm), &copy) == HOOP_SUCCESS && adds_up(copy) &&
               hoop_comm_split(copy, hoop_comm_rank(copy), 0, &part) == HOOP_SUCCESS && adds_up(part) && adds_up(comm);
    hoop_config_free(config);
    if (good)
        good = hoop_comm_destroy(round % 2 ? comm : part) == HOOP_SUCCESS && hoop_comm_destroy(copy) == HOOP_SUCCESS &&
               hoop_comm_destroy(round % 2 ? part : comm) == HOOP_SUCCESS;
    return good;
}

static void *
work(void *arg)
{
    hand *h = arg;
    hoop_error e = {.size = sizeof(e)};
    for (int round = 0; round < ROUNDS && !h->bad; round++) {
        if (one_round(h, round))
            continue;
        hoop_comm_error(NULL, &e);
        snprintf(h->text, sizeof(h->text), "thread %d, round %d: %.200s", h->number, round, e.text);
        h->bad = 1;
    }
    return NULL;
}

static int
crew(int rank, int size, void *arg)
{
    static hand hands[THREADS];
    int bad = 0;
    for (int i = 0; i < THREADS; i++) {
        hands[i].number = i;
        if (pthread_create(&hands[i].thread, NULL, work, &hands[i]) != 0)
            return 2;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(hands[i].thread, NULL);
        if (hands[i].bad && !bad++)
            party_note("%s", hands[i].text);
    }
    return bad;
}

/* Says nothing, or garbage, or the beginning of a greeting, again and again. */
static pid_t
knock(int first)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int fds[KNOCKERS];
    for (int i = 0; i < KNOCKERS; i++)
        fds[i] = -1;
    for (int n = 0;; n++) {
        struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(first + n % RANKS))};
        int *fd = &fds[n % KNOCKERS];
        sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (*fd >= 0)
            close(*fd);
        *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(*fd, (struct sockaddr *)&sin, sizeof(sin)) == 0 && n % 3)
            (void)!send(*fd, n % 3 == 1 ? "GET /" : "HOOP\1\1", n % 3 == 1 ? 5 : 6, MSG_NOSIGNAL);
        usleep(500);
    }
}

int
main(void)
{
    char text[64];
    int first = party_ports(RANKS);
    tap_limit(LIMIT + 30);
    plan_lazy();
    setenv("HOOP_DEBUG", "none", 1);
    snprintf(text, sizeof(text), "%d-%d", first, first + RANKS - 1);
    setenv("HOOP_PORT_RANGE", text, 1);
    party_open(&p);
    pid_t child = knock(first);
    double begin = party_clock();
    ok(party_run(&p, RANKS, crew, NULL, LIMIT) == 0,
       "%d threads of %d ranks, each %d times: create, split, sum, destroy; strangers at the one port of each", THREADS,
       RANKS, ROUNDS);
    diag("%.2f s", party_clock() - begin);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    party_close(&p);
    return 0;
}
