/* SPDX-License-Identifier: MIT */
/*
 * many_ranks: 512 ranks at one server in a process of its own: they meet in time, and the server stays small in memory
 * and descriptors. Then many small jobs at once: none hears of another's end.
 */
#include "base/err.h"
#include "t/rendezvous/ranks.h"
#include "t/tap/tap.h"
#include "t/tools/descriptors.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CROWD = 512, JOBS = 32, JOB_RANKS = 4, SERVER_KIB = 64 << 10 };

static hp_client *clients[RANKS_MAX];
static pid_t server;

/* The server goes on in a child; here its place is left empty. */
static void
move_server(meet *m)
{
    int up[2];
    char byte;
    hp_server_free(m->server);
    m->server = NULL;
    if (pipe(up) || (server = fork()) < 0)
        bail("no child for the server");
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        hp_loop *loop = hp_loop_new(); /* the parent's loop is not ours */
        m->loop = loop;
        meet_serve(m);
        if (write(up[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            hp_loop_run(loop, HP_NEVER);
    }
    if (read(up[0], &byte, 1) != 1)
        bail("the server did not start");
    close(up[0]);
    close(up[1]);
}

static long
server_kib(const char *key)
{
    char path[64], line[128];
    long value = -1;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)server);
    FILE *status = fopen(path, "r");
    while (status && fgets(line, sizeof(line), status))
        if (strncmp(line, key, strlen(key)) == 0)
            value = strtol(line + strlen(key), NULL, 10);
    if (status)
        fclose(status);
    return value;
}

static void
test_crowd(meet *m)
{
    uint64_t before = hp_now();
    for (int i = 0; i < CROWD; i++) {
        hp_client_options o = rank_options(m, "crowd", i, CROWD, 64, SOON_MS);
        clients[i] = rank_join(m, &o);
    }
    ok(ranks_go(m, clients, CROWD, SOON_MS), "%d ranks meet", CROWD);
    double took = (double)(hp_now() - before) / 1e9;
    ok(took < 10 + tap_room(), "within 10 s: %.2f s", took);
    long peak = server_kib("VmHWM:");
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    ok(peak > 0, "memory is not judged under a sanitizer: %ld KiB", peak);
#else
    ok(peak > 0 && peak <= SERVER_KIB, "the server's memory is at most 64 MiB: %ld KiB", peak);
#endif
    int fds = count_descriptors(server);
    ok(fds > CROWD && fds <= CROWD + CROWD / 5, "and its descriptors at most 1.2 a rank: %d", fds);
    hp_client_free(clients[100]);
    clients[100] = clients[CROWD - 1];
    before = hp_now();
    int heard = 0;
    hoop_error error;
    for (tap_wait w = {0}; heard < CROWD - 1 && tap_waits(&w);) {
        meet_run(m, 2);
        for (heard = 0; heard < CROWD - 1 && hp_membership_verdict(hp_client_membership(clients[heard]), &error) &&
                        error.rank == 100;)
            heard++;
    }
    is_int(CROWD - 1, heard, "a loss is told to all of them: after %.3f s", (double)(hp_now() - before) / 1e9);
    ranks_free(clients, CROWD - 1);
}

/* Every other job loses a rank. */
static void
test_many_jobs(meet *m)
{
    char name[16];
    int good = 0, hurt = 0;
    hoop_error error;
    for (int r = 0; r < JOB_RANKS; r++)
        for (int j = 0; j < JOBS; j++) {
            snprintf(name, sizeof(name), "job %d", j);
            hp_client_options o = rank_options(m, name, r, JOB_RANKS, 2, SOON_MS);
            o.pid = (uint32_t)(j * 100 + r);
            clients[j * JOB_RANKS + r] = rank_join(m, &o);
        }
    ok(ranks_go(m, clients, JOBS * JOB_RANKS, SOON_MS), "%d jobs of %d ranks meet, all at once", JOBS, JOB_RANKS);
    for (int j = 0; j < JOBS; j++)
        for (int r = 0; r < JOB_RANKS; r++)
            for (int k = 0; k < JOB_RANKS; k++)
                good += case_int(j * 100 + k, hp_client_ring(clients[j * JOB_RANKS + r])->members[k].pid,
                                 "pid of rank %d, as rank %d of job %d has it", k, r, j);
    is_int(JOBS * JOB_RANKS * JOB_RANKS, good, "each with its own");
    for (int j = 0; j < JOBS; j += 2) {
        hp_client_free(clients[j * JOB_RANKS]);
        clients[j * JOB_RANKS] = NULL;
    }
    meet_run(m, 500);
    for (int j = 0; j < JOBS; j++)
        for (int r = 1; r < JOB_RANKS; r++)
            hurt +=
                case_int(j % 2 == 0, hp_membership_verdict(hp_client_membership(clients[j * JOB_RANKS + r]), &error),
                         "rank %d of job %d is told of a loss", r, j);
    is_int(JOBS * (JOB_RANKS - 1), hurt, "a job hears of its own loss and of no other");
    ranks_free(clients, JOBS * JOB_RANKS);
}

int
main(void)
{
    meet m;
    struct rlimit limit;
    plan_lazy();
    tap_limit(240);
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < 2 * CROWD)
        skip_all("%d descriptors are too few for %d ranks", (int)limit.rlim_max, CROWD);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    meet_open(&m);
    move_server(&m);
    test_crowd(&m);
    test_many_jobs(&m);
    kill(server, SIGTERM);
    waitpid(server, NULL, 0);
    meet_close(&m);
    return 0;
}
