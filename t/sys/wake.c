/* SPDX-License-Identifier: MIT */
/*
 * Programs with a loop of their own (hoop_comm_fd), and long payloads: what wakes a rank asleep in the middle of one
 * must make the descriptor readable, also where the socket holds less than the rank would like to sleep for. The
 * library's own alarm goes off several times a second, so wake-ups that are lost show in the time that many of them take.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, COUNT = 1 << 20 };

static party p;

typedef struct plot {
    int own_loop; /* the rank that has one, -1: all of them, -2: none */
    double most;  /* seconds that the operations may take */
} plot;

/* One allreduce of 4 MiB; by the program's own loop, which sleeps until it is woken. */
static hoop_result
reduce(hoop_comm *comm, int fd, const float *in, float *out)
{
    hoop_work *work;
    hoop_result result = hoop_iallreduce(in, out, COUNT, HOOP_FLOAT32, HOOP_SUM, comm, &work);
    int done = 0;
    if (fd < 0)
        return result == HOOP_SUCCESS ? hoop_work_wait(work, -1) : result;
    while (result == HOOP_SUCCESS && !done) {
        struct pollfd ready = {fd, POLLIN, 0};
        poll(&ready, 1, 10000);
        hoop_comm_progress(comm);
        result = hoop_work_test(work, &done);
    }
    return result == HOOP_SUCCESS ? hoop_work_wait(work, 0) : result;
}

static int
operate(hoop_comm *comm, const plot *s, int rounds, hoop_result *result)
{
    static float in[COUNT], out[COUNT];
    int rank = hoop_comm_rank(comm), n = hoop_comm_size(comm), wrong = 0;
    int fd = s->own_loop == rank || s->own_loop == -1 ? hoop_comm_fd(comm) : -1;
    *result = HOOP_SUCCESS;
    for (int round = 0; round < rounds && *result == HOOP_SUCCESS; round++) {
        for (int i = 0; i < COUNT; i++)
            in[i] = (float)((rank + 1) * (1 + (i + round) % 7));
        memset(out, 0xff, sizeof(out));
        *result = reduce(comm, fd, in, out);
        for (int i = 0; i < COUNT && *result == HOOP_SUCCESS; i++)
            wrong += out[i] != (float)(n * (n + 1) / 2 * (1 + (i + round) % 7));
    }
    return wrong;
}

/* 4 MiB through sockets of 8 KiB: hundreds of sleeps, each of which would last an eighth of a second if nobody woke it. */
static int
small_sockets(int rank, int size, void *arg)
{
    const plot *s = arg;
    hoop_comm *comm;
    hoop_result result;
    if (party_create(&comm) != HOOP_SUCCESS)
        return 1;
    double begin = party_clock();
    int wrong = operate(comm, s, 2, &result);
    double took = party_clock() - begin;
    party_note("result %d, %d wrong, %.2f s", (int)result, wrong, took);
    return wrong || result != HOOP_SUCCESS || took > s->most || hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

static void
sockets(const char *bytes)
{
    static const char *const whose[] = {"none", "all", "rank 0"};
    setenv("HOOP_RCVBUF", bytes, 1);
    for (int own = -2; own <= 0; own++) {
        plot s = {.own_loop = own, .most = 3};
        int bad = party_run(&p, RANKS, small_sockets, &s, 60);
        is_int(0, bad, "HOOP_RCVBUF=%s, a loop of their own: %s; %s", bytes, whose[own + 2], p.guest[0].note);
    }
    unsetenv("HOOP_RCVBUF");
}

static int
endless(int rank, int size, void *arg)
{
    const plot *s = arg;
    hoop_comm *comm;
    hoop_error e = {.size = sizeof(e)};
    hoop_result result;
    if (party_create(&comm) != HOOP_SUCCESS)
        return 1;
    int wrong = operate(comm, s, 1000000, &result);
    hoop_comm_error(comm, &e);
    party_note("%d %d %.3f %s", (int)result, e.rank, party_clock(), e.text);
    hoop_comm_destroy(comm);
    return wrong;
}

/* A rank dies while the others, with loops of their own, sleep in the middle of what it sends. */
static void
killed(void)
{
    int good = 0, n = party_rounds(60);
    for (int i = 0; i < n; i++) {
        plot s = {.own_loop = -1};
        int victim = (int)(tap_random() % RANKS), right = 1;
        party_start(&p, RANKS, endless, &s, 90);
        party_await(&p);
        party_nap(0.2 + (double)(tap_random() % 1000) / 5000);
        double at = party_clock();
        kill(p.guest[victim].pid, SIGKILL);
        party_wait(&p);
        for (int rank = 0; rank < RANKS; rank++) {
            int code = 0, named = -1;
            double when = 0;
            sscanf(p.guest[rank].note, "%d %d %lf", &code, &named, &when);
            if (rank == victim ||
                (p.guest[rank].status == 0 && code == HOOP_ERR_PEER_LOST && named == victim && when - at < 1.0))
                continue;
            diag("rank %d (status %#x), %d killed at %.3f: %s", rank, (unsigned)p.guest[rank].status, victim, at,
                 p.guest[rank].note);
            right = 0;
        }
        good += right;
    }
    is_int(n, good, "a rank dies: loops of their own are woken, and it is named within a second");
}

int
main(void)
{
    tap_limit(240);
    plan(7);
    party_open(&p);
    sockets("8192");
    sockets("65536");
    killed();
    party_close(&p);
    return 0;
}
