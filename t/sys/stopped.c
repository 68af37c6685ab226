/* SPDX-License-Identifier: MIT */
/*
 * Processes that were not run for longer than the limits: where all of a job were, with the server (Ctrl-Z, a paused
 * container), it goes on as if nothing had been; where one was, the others name it, and it takes that verdict when it
 * wakes up instead of blaming them.
 */
#include "hoop.h"
#include "t/sys/told.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum {
    RANKS = 4,
    COUNT = 1 << 18,
    ROUNDS = 120,
    FEW = 4,
    LAZY_MS = 900,
    LIMIT_MS = 14000, /* a machine may stall for some seconds when all go on */
    SILENT_MS = 18000,
    SILENT_LIMIT_MS = 24000,
    SCENES = 8
};

typedef struct plot {
    int how;  /* 0: blocking; 1: short waits; 2: the background thread */
    int late; /* rank 0 comes that many ms late to the bring-up */
    int lazy; /* and to every operation, so that the others wait in one when they are stopped */
    int endless;
} plot;

static void
every(int signal, int server, double stagger)
{
    if (server)
        kill(p.server, signal);
    for (int rank = 0; rank < p.size; rank++) {
        party_nap(stagger * (double)(tap_random() % 100) / 100);
        kill(p.guest[rank].pid, signal);
    }
}

static hoop_result
reduce(hoop_comm *comm, int how, const float *in, float *out)
{
    hoop_work *work;
    hoop_result result;
    if (how == 0)
        return hoop_allreduce(in, out, COUNT, HOOP_FLOAT32, HOOP_SUM, comm);
    result = hoop_iallreduce(in, out, COUNT, HOOP_FLOAT32, HOOP_SUM, comm, &work);
    if (result == HOOP_SUCCESS && how == 2)
        party_nap(0.01);
    do
        result = result == HOOP_SUCCESS || result == HOOP_IN_PROGRESS ? hoop_work_wait(work, 1) : result;
    while (result == HOOP_IN_PROGRESS);
    return result;
}

static int
operate(int rank, int size, void *arg)
{
    static float in[COUNT], out[COUNT];
    const plot *s = arg;
    hoop_comm *comm = NULL;
    int wrong = 0;
    if (rank == 0)
        party_nap(s->late / 1e3);
    hoop_result result = party_create(&comm);
    for (int round = 0; (s->endless || round < (s->lazy ? FEW : ROUNDS)) && result == HOOP_SUCCESS; round++) {
        if (s->lazy && rank == 0)
            party_nap(LAZY_MS / 1e3);
        for (int i = 0; i < COUNT; i += 64)
            in[i] = (float)((rank + 1) * (1 + (i / 64 + round) % 7));
        result = reduce(comm, s->how, in, out);
        for (int i = 0; i < COUNT && result == HOOP_SUCCESS; i += 64)
            wrong += out[i] != (float)(size * (size + 1) / 2 * (1 + (i / 64 + round) % 7));
        party_nap(0.005);
        if (round == 1)
            party_mark();
    }
    party_mark();
    tell_of(comm, result, 0, wrong);
    hoop_comm_destroy(comm);
    return result != HOOP_SUCCESS || wrong;
}

static int
failures(void)
{
    int bad = 0;
    party_wait(&p);
    for (int rank = 0; rank < p.size; rank++)
        bad += p.guest[rank].status != 0;
    if (bad)
        show("failed");
    return bad;
}

static void
all_stopped(int size, int how, double stagger)
{
    static const char *const waits[] = {"blocking calls", "short waits", "the background thread"};
    plot s = {.how = how, .lazy = 1};
    party_start(&p, size, operate, &s, 90);
    party_await(&p);
    party_nap(LAZY_MS / 1e3 + 0.4 + (double)(tap_random() % 100) / 300);
    every(SIGSTOP, 1, 0);
    party_nap(LIMIT_MS / 1e3 + 2);
    every(SIGCONT, 1, stagger);
    is_int(0, failures(), "%d ranks and the server, stopped for longer than the limit, go on%s: %s", size,
           stagger > 0 ? " one after the other" : "", waits[how]);
}

static void
bring_up(void)
{
    plot s = {.late = 1000};
    party_start(&p, RANKS, operate, &s, 90);
    party_nap(0.4);
    every(SIGSTOP, 1, 0);
    party_nap(LIMIT_MS / 1e3 + 2);
    every(SIGCONT, 1, 0);
    is_int(0, failures(), "a bring-up in which all were stopped for longer than its limit succeeds");
}

static void
server_stopped(void)
{
    plot s = {.lazy = 1};
    party_start(&p, RANKS, operate, &s, 90);
    party_await(&p);
    party_nap(LAZY_MS / 1e3 + 0.4);
    kill(p.server, SIGSTOP);
    party_nap(LIMIT_MS / 1e3 + 2);
    kill(p.server, SIGCONT);
    is_int(0, failures(), "a server that was stopped blames no rank");
}

/* Rank 0 is late by nearly the limit; after that there are only short operations, for longer than the limit. */
static int
goes_on(int rank, int size, void *arg)
{
    hoop_comm *comm = NULL;
    hoop_error e = {.size = sizeof(e)};
    int32_t last = 0, one = 0;
    hoop_result result = party_create(&comm);
    if (rank == 0)
        party_nap(SILENT_MS / 1e3 + 1);
    double until = party_clock() + SILENT_LIMIT_MS / 1e3 + 2;
    int rounds = 0;
    for (; result == HOOP_SUCCESS && !last; rounds++) {
        one = rank == 0 && rounds > 0 && party_clock() > until;
        result = hoop_allreduce(&one, &last, 1, HOOP_INT32, HOOP_MAX, comm);
        party_nap(0.01);
    }
    hoop_comm_error(comm, &e);
    party_note("%d after %d rounds: %s", (int)result, rounds, e.text);
    return hoop_comm_destroy(comm) != HOOP_SUCCESS || result != HOOP_SUCCESS;
}

/* Whether the server's log ends with this. */
static int
log_ends_with(const char *part)
{
    char line[512] = "";
    FILE *f = fopen(p.log, "r");
    while (f && fgets(line, sizeof(line), f))
        continue;
    if (f)
        fclose(f);
    return strstr(line, part) != NULL;
}

/* A server that says nothing for long is not gone: what ranks report after it reaches the server. */
static void
server_silent(void)
{
    char limit[16];
    snprintf(limit, sizeof(limit), "%d", SILENT_LIMIT_MS);
    setenv("HOOP_OP_TIMEOUT_MS", limit, 1);
    party_start(&p, 2, goes_on, NULL, 120);
    party_await(&p);
    party_nap(0.5);
    kill(p.server, SIGSTOP);
    party_nap(SILENT_MS / 1e3);
    kill(p.server, SIGCONT);
    is_int(0, failures(), "a server was silent for %d s while a rank waited: no rank is blamed later",
           SILENT_MS / 1000);
    for (int i = 0; i < 3000 && !log_ends_with("over: all 2 ranks left"); i++)
        party_nap(0.01);
    ok(log_ends_with("over: all 2 ranks left"), "and the server hears all leave");
}

static void
one_stopped(void)
{
    int victim = (int)(tap_random() % RANKS), good = 0;
    plot s = {.endless = 1};
    party_start(&p, RANKS, operate, &s, 90);
    party_await_marks(RANKS);
    kill(p.guest[victim].pid, SIGSTOP);
    party_await_marks(2 * RANKS - 1);
    double at = party_clock();
    kill(p.guest[victim].pid, SIGCONT);
    party_wait(&p);
    for (int rank = 0; rank < RANKS; rank++) {
        told t = hear(rank);
        good += t.result == HOOP_ERR_TIMEOUT && t.rank == victim && t.wrong == 0 &&
                (rank != victim || t.at - at < 1 + tap_room());
    }
    if (good < RANKS)
        show("stopped");
    is_int(RANKS, good, "a rank that was stopped alone is named by all, by itself as well: %s", p.guest[victim].note);
}

static void
play(int scene)
{
    party_open(&p);
    switch (scene) {
    case 0: all_stopped(2, 0, 0); break;
    case 1: all_stopped(RANKS, 1, 0); break;
    case 2: all_stopped(3, 2, 0); break;
    case 3: all_stopped(RANKS, 0, 0.25); break;
    case 4: bring_up(); break;
    case 5: server_stopped(); break;
    case 6: one_stopped(); break;
    default: server_silent();
    }
    party_close(&p);
}

int
main(void)
{
    char limit[16];
    tap_limit(240);
    plan_lazy();
    snprintf(limit, sizeof(limit), "%d", LIMIT_MS);
    setenv("HOOP_OP_TIMEOUT_MS", limit, 1);
    setenv("HOOP_BOOTSTRAP_TIMEOUT_MS", limit, 1);
    tap_scenes(SCENES, play);
    return tap_failures() != 0;
}
