/* SPDX-License-Identifier: MIT */
/*
 * Rings whose server is gone: the ranks tell each other where they are, so that all of them name the one that stands
 * still, in the time that is promised, and nobody ends an operation of which another part still moves.
 */
#include "hoop.h"
#include "t/sys/told.h"
#include "t/tools/proxy.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { RANKS = 5, FEW = 3, COUNT = 1 << 20, LIMIT_MS = 5000 };

typedef struct plot {
    int victim;
    int pause; /* the victim comes to the operation when the others have failed, instead of being stopped in one */
    proxy *x;
} plot;

/* A party whose server has just died, when its ring stands. */
static void
start_without_server(int size, party_fn *fn, plot *s)
{
    party_open(&p);
    party_start(&p, size, fn, s, 90);
    party_await(&p);
    party_nap(0.6);
    kill(p.server, SIGKILL);
}

static int
join(hoop_comm **comm)
{
    if (party_create(comm) != HOOP_SUCCESS)
        return 0;
    party_nap(1.0); /* the server dies meanwhile */
    return 1;
}

static int
endless(int rank, int size, void *arg)
{
    static float in[COUNT], out[COUNT];
    const plot *s = arg;
    hoop_comm *comm;
    hoop_result result = HOOP_SUCCESS;
    int wrong = 0;
    if (!join(&comm))
        return 1;
    for (int round = 0; result == HOOP_SUCCESS; round++) {
        if (s->pause && round == 3 && rank == s->victim)
            party_await_marks(2 * size - 1);
        if (round == 1)
            party_mark();
        for (int i = 0; i < COUNT; i++)
            in[i] = (float)((rank + 1) * (1 + (i + round) % 7));
        result = hoop_allreduce(in, out, COUNT, HOOP_FLOAT32, HOOP_SUM, comm);
        for (int i = 0; i < COUNT && result == HOOP_SUCCESS; i++)
            wrong += out[i] != (float)(size * (size + 1) / 2 * (1 + (i + round) % 7));
    }
    tell_of(comm, result, 0, wrong);
    party_mark();
    hoop_comm_destroy(comm);
    return wrong;
}

/* 1 if every rank but the victim timed out and names it, by `most` seconds after `since`. */
static int
all_name(int victim, double since, double most, const char *word)
{
    int good = 1;
    for (int rank = 0; rank < RANKS; rank++) {
        told t = hear(rank);
        good &= rank == victim || (t.result == HOOP_ERR_TIMEOUT && t.rank == victim && t.wrong == 0 &&
                                   (t.flags & HOOP_ERROR_BEST_EFFORT) && strstr(t.text, word) &&
                                   (since <= 0 || t.at - since <= most + tap_room()));
    }
    if (!good)
        diag("rank %d stood still since %.2f s:", victim, since);
    return good || show("named");
}

static void
stopped(void)
{
    int good = 0, n = party_rounds(60);
    for (int i = 0; i < n; i++) {
        plot s = {.victim = i % RANKS};
        start_without_server(RANKS, endless, &s);
        party_await_marks(RANKS);
        party_nap((double)(tap_random() % 1000) / 3000);
        double at = party_clock();
        kill(p.guest[s.victim].pid, SIGSTOP);
        party_await_marks(2 * RANKS - 1);
        kill(p.guest[s.victim].pid, SIGCONT);
        party_wait(&p);
        good += all_name(s.victim, at, LIMIT_MS / 1e3 + 1.2, "stopped");
        if (i == 0)
            diag("%s", p.guest[1].note);
        party_close(&p);
    }
    is_int(n, good, "a stopped rank is named by all others within the time-out and a second, without a server");
}

/* The server is there, and says nothing: that is no other case. */
static void
frozen(void)
{
    int good = 0, n = getenv("HOOP_TEST_FULL") ? 20 : 3;
    for (int i = 0; i < n; i++) {
        plot s = {.victim = i % RANKS};
        party_open(&p);
        party_start(&p, RANKS, endless, &s, 90);
        party_await(&p);
        party_await_marks(RANKS);
        kill(p.server, SIGSTOP);
        party_nap(0.5 + (double)(tap_random() % 1000) / 500);
        double at = party_clock();
        kill(p.guest[s.victim].pid, SIGSTOP);
        party_await_marks(2 * RANKS - 1);
        kill(p.guest[s.victim].pid, SIGCONT);
        party_wait(&p);
        good += all_name(s.victim, at, LIMIT_MS / 1e3 + 1.2, "rank");
        party_close(&p);
    }
    is_int(n, good, "a stopped rank is named by all others within the time-out and a second, with a frozen server");
}

static void
late(void)
{
    plot s = {.victim = 2, .pause = 1};
    start_without_server(RANKS, endless, &s);
    party_wait(&p);
    ok(all_name(s.victim, 0, 0, "has not entered operation 4"), "so is one that has not entered the operation");
    party_close(&p);
}

/* An allreduce through an edge so slow that all ranks but the one behind it see no byte for longer than the time-out. */
static int
slow_allreduce(int rank, int size, void *arg)
{
    static float in[COUNT / 3], out[COUNT / 3];
    const plot *s = arg;
    hoop_comm *comm;
    int wrong = 0;
    if (rank == 1)
        proxy_stand_before(s->x, 0);
    if (!join(&comm))
        return 1;
    for (int i = 0; i < COUNT / 3; i++)
        in[i] = (float)(i % 1000);
    double begin = party_clock();
    hoop_result result = hoop_allreduce(in, out, COUNT / 3, HOOP_FLOAT32, HOOP_SUM, comm);
    for (int i = 0; i < COUNT / 3 && result == HOOP_SUCCESS; i++)
        wrong += out[i] != (float)(i % 1000 * size);
    if (result == HOOP_SUCCESS) /* who is done waits for the others, and passes on what they say */
        result = hoop_barrier(comm);
    tell_of(comm, result, 0, wrong);
    double took = party_clock() - begin;
    if (result == HOOP_SUCCESS)
        party_note("%.2f", took);
    hoop_comm_destroy(comm);
    return result != HOOP_SUCCESS || wrong;
}

static void
slowness(void)
{
    plot s = {.x = proxy_open()};
    int bad = 0;
    atomic_store(&s.x->door[0].rate, 75000); /* a chunk of 455 KiB takes 6.2 s */
    start_without_server(FEW, slow_allreduce, &s);
    party_wait(&p);
    for (int rank = 0; rank < FEW; rank++)
        bad += p.guest[rank].status != 0;
    double took = atof(p.guest[FEW - 1].note);
    ok((bad == 0 && took > 6) || show("slow"), "an operation of which one rank trickles goes on for the others, %.1f s",
       took);
    party_close(&p);
    proxy_close(s.x);
}

static void
play(int scene)
{
    static void (*const scenes[])(void) = {stopped, late, slowness, frozen};
    scenes[scene]();
}

int
main(void)
{
    char limit[16];
    tap_limit(240);
    plan(4);
    snprintf(limit, sizeof(limit), "%d", LIMIT_MS);
    setenv("HOOP_OP_TIMEOUT_MS", limit, 1);
    tap_scenes(4, play);
    return 0;
}
