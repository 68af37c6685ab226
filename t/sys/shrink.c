/* SPDX-License-Identifier: MIT */
/*
 * hoop_comm_shrink: ranks die at random instants, and those that are left go on with the right results, dense ranks in the
 * old order, and one history. Nobody waits for the dead, a late rank is told that it was left behind, and what dies during
 * the shrink is left out as well.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static party p;

typedef struct story {
    int deaths;    /* ranks that die, one after the other: each while the ring that is left works */
    int at_once;   /* ranks that die with each of them */
    int in_shrink; /* 1: the last of these dies in its call of hoop_comm_shrink */
    unsigned seed;
} story;

/* Allreduces of changing sizes until one fails; -1: a result was wrong. Rank `dies` dies after some. */
static int
work(hoop_comm *comm, int dies, uint64_t seed)
{
    enum { MOST = 70000 };
    static float in[MOST], out[MOST];
    int rank = hoop_comm_rank(comm), size = hoop_comm_size(comm);
    int last = 5 + (int)(tap_mix(seed) % 40);
    for (int round = 0;; round++) {
        size_t count = (size_t)(tap_mix(seed + (uint64_t)round) % MOST);
        if (rank == dies && round == last)
            kill(getpid(), SIGKILL);
        if (round > last + 500)
            return -1; /* nobody has died */
        for (size_t i = 0; i < count; i++)
            in[i] = (float)(rank + 1) * (float)(1 + (i + (size_t)round) % 13);
        memset(out, 0xff, sizeof(out));
        hoop_result result = hoop_allreduce(in, out, count, HOOP_FLOAT32, HOOP_SUM, comm);
        if (result != HOOP_SUCCESS)
            return (int)result;
        for (size_t i = 0; i < count; i++)
            if (out[i] != (float)(size * (size + 1) / 2) * (float)(1 + (i + (size_t)round) % 13))
                return -1;
    }
}

/* Which ranks of the first ring are in this one, as all its ranks know it. 0: they are not in the old order. */
static int
in_order(hoop_comm *comm, int self, int size)
{
    int *all = calloc((size_t)size, sizeof(int)), good = 1;
    if (hoop_allgather(&self, all, 1, HOOP_INT32, comm) != HOOP_SUCCESS)
        return 0;
    for (int i = 0; i < size; i++)
        good &= i == 0 || all[i] > all[i - 1];
    good &= all[hoop_comm_rank(comm)] == self;
    free(all);
    return good;
}

/* One history for all: what this rank has completed lies in it, and each end is that of a rank. */
static int
has_history(hoop_comm *comm, uint64_t completed)
{
    uint64_t range[2] = {0, 0}, least = 0, most = 0;
    if (hoop_comm_history(comm, &range[0], &range[1]) != HOOP_SUCCESS ||
        hoop_allreduce(&completed, &least, 1, HOOP_UINT64, HOOP_MIN, comm) != HOOP_SUCCESS ||
        hoop_allreduce(&completed, &most, 1, HOOP_UINT64, HOOP_MAX, comm) != HOOP_SUCCESS)
        return 0;
    return range[0] == least && range[1] == most && most - least <= 1;
}

static int
bad(const char *what, hoop_comm *comm)
{
    hoop_error e = {.size = sizeof(e)};
    hoop_comm_error(comm, &e);
    party_note("%s: %d %s", what, e.code, e.text);
    return 1;
}

/* The next ring; the old one is destroyed. One that still has a rank which is about to die fails, and is shrunk, too. */
static int
go_on(hoop_comm **comm, int size, int self)
{
    uint64_t epoch = hoop_comm_epoch(*comm);
    do {
        hoop_comm *old = *comm;
        uint64_t completed = hoop_comm_completed(old);
        if (hoop_comm_shrink(old, comm) != HOOP_SUCCESS)
            return bad("shrink", old);
        hoop_comm_destroy(old);
        if (hoop_comm_size(*comm) < size || hoop_comm_epoch(*comm) != ++epoch)
            return bad("size or epoch", *comm);
        if (hoop_comm_size(*comm) == size && !has_history(*comm, completed))
            return bad("history", *comm);
        while (hoop_comm_size(*comm) > size && hoop_barrier(*comm) == HOOP_SUCCESS)
            continue;
    } while (hoop_comm_size(*comm) > size);
    return !in_order(*comm, self, size) ? bad("order", *comm) : 0;
}

/* This process, in a moment. */
static void
die_after(uint64_t us)
{
    if (fork() == 0) {
        usleep((useconds_t)us);
        kill(getppid(), SIGKILL);
        _exit(0);
    }
}

/* Dies while the others shrink, before it has called it or after. */
static void
die_soon(hoop_comm *comm, uint64_t seed)
{
    hoop_comm *next;
    die_after(seed % 30000);
    usleep((useconds_t)(tap_mix(seed) % 10000));
    if (hoop_comm_shrink(comm, &next) == HOOP_SUCCESS)
        while (hoop_barrier(next) == HOOP_SUCCESS)
            continue;
    pause();
}

static int
survivor(int rank, int size, void *arg)
{
    const story *plot = arg;
    hoop_comm *comm = party_join(0);
    for (int i = 0; i < plot->deaths; i++) {
        uint64_t seed = tap_mix(plot->seed + (unsigned)i);
        int dies = (int)(seed % (uint64_t)size), mine = hoop_comm_rank(comm);
        int with = plot->at_once && mine != dies && (mine - dies + size) % size <= plot->at_once;
        int result = work(comm, dies, seed);
        if (result != HOOP_ERR_PEER_LOST)
            return bad("no error, or a wrong result", comm);
        if (with && !plot->in_shrink)
            kill(getpid(), SIGKILL);
        if (with)
            die_soon(comm, tap_mix(seed + 7));
        size -= 1 + plot->at_once;
        if (go_on(&comm, size, rank))
            return 1;
    }
    hoop_result result = hoop_barrier(comm);
    if (hoop_comm_destroy(comm) != HOOP_SUCCESS || result != HOOP_SUCCESS)
        return 1;
    return 0;
}

static void
dies(const char *what, int n, int ranks, story plot)
{
    int good = 0;
    for (int i = 0; i < n; i++) {
        plot.seed = (unsigned)tap_random();
        int failed = party_run(&p, ranks, survivor, &plot, 90), killed = 0;
        for (int rank = 0; rank < ranks; rank++)
            killed += p.guest[rank].status == SIGKILL;
        good += killed == plot.deaths * (1 + plot.at_once) && failed == killed;
        for (int rank = 0; rank < ranks; rank++)
            if (p.guest[rank].status && p.guest[rank].status != SIGKILL)
                diag("seed %u, rank %d ended with %#x: %s", plot.seed, rank, (unsigned)p.guest[rank].status,
                     p.guest[rank].note);
    }
    is_int(n, good, "%s", what);
}

/* Nobody has died: the ring ends, and all its ranks form the next one. */
static int
healthy(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(3);
    if (rank == 1) { /* the others hear of it in their operation, or when they call it */
        if (go_on(&comm, size, rank))
            return 1;
    } else {
        float one = 1;
        hoop_result result = HOOP_SUCCESS;
        while (rank == 2 && result == HOOP_SUCCESS)
            result = hoop_allreduce(&one, &one, 1, HOOP_FLOAT32, HOOP_MAX, comm);
        hoop_error e = {.size = sizeof(e)};
        hoop_comm_error(comm, &e);
        if (rank == 2 && (result != HOOP_ERR_ABORTED || !strstr(e.text, "called hoop_comm_shrink")))
            return bad("another error", comm);
        if (go_on(&comm, size, rank))
            return 1;
    }
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* Rank 1 dies, and rank 2 leaves its failed communicator: nobody waits for either. */
static int
left(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(3);
    if (rank == 1)
        kill(getpid(), SIGKILL);
    while (hoop_barrier(comm) == HOOP_SUCCESS)
        continue;
    if (rank == 2) {
        hoop_comm_destroy(comm);
        party_await_marks(size - 2); /* a process that lives on */
        return 0;
    }
    if (go_on(&comm, size - 2, rank))
        return 1;
    party_mark();
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* Rank 2 is stopped when the others shrink, and finds when it goes on that they have gone on without it. */
static int
late(int rank, int size, void *arg)
{
    hoop_comm *comm, *next = comm = party_join(3);
    if (rank == 1) {
        party_await_marks(1);
        kill(getpid(), SIGKILL);
    }
    if (rank == 2) {
        party_mark();
        kill(getpid(), SIGSTOP);
        if (hoop_barrier(comm) != HOOP_ERR_PEER_LOST)
            return bad("the failure is heard of late", comm);
        if (hoop_comm_shrink(comm, &next) != HOOP_ERR_STALE_EPOCH || next)
            return bad("a rank that comes too late", comm);
        hoop_error e = {.size = sizeof(e)};
        hoop_comm_error(comm, &e);
        party_note("%s", e.text);
        party_mark();
        return !strstr(e.text, "gone on without this one, as epoch 1");
    }
    while (hoop_barrier(comm) == HOOP_SUCCESS)
        continue;
    if (go_on(&comm, size - 2, rank))
        return 1;
    party_mark();
    if (!party_await_marks(size))
        return bad("the late rank", comm);
    return hoop_barrier(comm) != HOOP_SUCCESS || hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* The whole job and the part of it that a rank was in fail, and both are shrunk; the other part goes on. */
static int
parts(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(1), *part = NULL;
    if (hoop_comm_split(comm, rank % 2, 0, &part) != HOOP_SUCCESS || hoop_barrier(part) != HOOP_SUCCESS)
        return bad("split", comm);
    party_mark(); /* the barrier is over for this rank, if not for all */
    if (rank == 1 && party_await_marks(size))
        kill(getpid(), SIGKILL);
    while (hoop_barrier(comm) == HOOP_SUCCESS)
        continue;
    while (rank % 2 && hoop_barrier(part) == HOOP_SUCCESS)
        continue;
    if (rank % 2 && go_on(&part, size / 2 - 1, rank))
        return 1;
    if (hoop_barrier(part) != HOOP_SUCCESS || go_on(&comm, size - 1, rank))
        return bad("after it", part);
    hoop_comm *again = NULL; /* the next ring is split as any other */
    if (hoop_comm_split(comm, 0, -rank, &again) != HOOP_SUCCESS || hoop_comm_size(again) != size - 1 ||
        hoop_comm_rank(again) != size - 2 - hoop_comm_rank(comm))
        return bad("a split of it", comm);
    return (hoop_comm_destroy(again) | hoop_comm_destroy(part) | hoop_comm_destroy(comm)) != HOOP_SUCCESS;
}

/* Rank 1 dies in a split: those that hear of it shrink at once, and the others must hear of rank 1, too, not of these. */
static int
in_a_split(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(1), *part;
    if (rank == 1)
        die_after(tap_mix(*(const uint64_t *)arg) % 10000);
    while (hoop_comm_split(comm, 0, 0, &part) == HOOP_SUCCESS)
        hoop_comm_destroy(part);
    hoop_error e = {.size = sizeof(e)};
    hoop_comm_error(comm, &e);
    if (e.code != HOOP_ERR_PEER_LOST || !strstr(e.text, "rank 1 "))
        return bad("another error", comm);
    return go_on(&comm, size - 1, rank) || hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

static int
refuses(const char *what, hoop_comm *comm, hoop_result wanted, hoop_result seen, hoop_comm **next, const char *words)
{
    hoop_error e = {.size = sizeof(e)};
    hoop_comm_error(comm, &e);
    if (seen == wanted && (!next || !*next) && strstr(e.text, words))
        return 0;
    party_note("%s: %d %s", what, (int)seen, e.text);
    return 1;
}

static int
misused(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(1), *next = comm;
    uint64_t least = 7, most = 7;
    if (refuses("no place", comm, HOOP_ERR_INVALID_ARGUMENT, hoop_comm_shrink(comm, NULL), NULL, "newcomm is NULL") ||
        refuses("no communicator", NULL, HOOP_ERR_INVALID_ARGUMENT, hoop_comm_shrink(NULL, &next), &next, "is NULL") ||
        refuses("no place for a history", comm, HOOP_ERR_INVALID_ARGUMENT, hoop_comm_history(comm, &least, NULL), NULL,
                "is NULL"))
        return 1;
    if (hoop_comm_epoch(NULL) != 0 || hoop_comm_epoch(comm) != 0 ||
        hoop_comm_history(comm, &least, &most) != HOOP_SUCCESS || least || most)
        return bad("the first ring", comm);
    hoop_group_start(comm);
    if (refuses("in a group", comm, HOOP_ERR_INVALID_USAGE, hoop_comm_shrink(comm, &next), &next, "inside a group"))
        return 1;
    hoop_group_end(comm);
    if (hoop_barrier(comm) != HOOP_SUCCESS)
        return bad("a refused call ends nothing", comm);
    party_mark(); /* a shrink would end the barrier where it is not over */
    party_await_marks(size);
    hoop_comm *old = comm;
    if (hoop_comm_shrink(old, &comm) != HOOP_SUCCESS ||
        refuses("the old ring", old, HOOP_ERR_ABORTED, hoop_barrier(old), NULL, "hoop_comm_shrink"))
        return 1;
    next = comm;
    if (refuses("twice", old, HOOP_ERR_INVALID_USAGE, hoop_comm_shrink(old, &next), &next, "shrunk already"))
        return 1;
    hoop_comm_destroy(old);
    return hoop_comm_size(comm) != size || hoop_comm_rank(comm) != rank || hoop_barrier(comm) != HOOP_SUCCESS ||
           hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* Ranks 1 to 3 die one after the other: three of four and two of three are a majority, one of two is none. */
static int
majority(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(1), *next = comm;
    for (int dead = 1; dead < size; dead++) {
        if (rank == dead)
            kill(getpid(), SIGKILL);
        while (hoop_barrier(comm) == HOOP_SUCCESS)
            continue;
        if (dead < size - 1 && go_on(&comm, size - dead, rank))
            return 1;
    }
    return refuses("one of two", comm, HOOP_ERR_NO_QUORUM, hoop_comm_shrink(comm, &next), &next,
                   "1 of 2 ranks are left, and by quorum=majority more than half must be") ||
           refuses("again", comm, HOOP_ERR_NO_QUORUM, hoop_comm_shrink(comm, &next), &next, "quorum=majority") ||
           hoop_comm_destroy(comm) == HOOP_SUCCESS;
}

/* All end well but rank 1, which has killed itself. */
static void
without_rank_1(const char *what)
{
    int good = 1;
    for (int rank = 0; rank < p.size; rank++) {
        good &= p.guest[rank].status == (rank == 1 ? SIGKILL : 0);
        if (p.guest[rank].status && rank != 1)
            diag("rank %d ended with %#x: %s", rank, (unsigned)p.guest[rank].status, p.guest[rank].note);
    }
    ok(good, "%s", what);
}

static void
stopped(void)
{
    setenv("HOOP_BOOTSTRAP_TIMEOUT_MS", "14000", 1);
    party_start(&p, 4, late, NULL, 90);
    ok(party_await_marks(3), "the others go on without a rank that is stopped");
    kill(p.guest[2].pid, SIGCONT);
    party_wait(&p);
    unsetenv("HOOP_BOOTSTRAP_TIMEOUT_MS");
    without_rank_1("... which learns it when it goes on");
}

/* With the server gone, or away for ever, the call fails in time. */
static int
unserved(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(1), *next = comm;
    if (rank == 0) {
        kill(p.server, SIGKILL);
        kill(getpid(), SIGKILL);
    }
    while (hoop_barrier(comm) == HOOP_SUCCESS)
        continue;
    int wrong = refuses("no server", comm, HOOP_ERR_RENDEZVOUS, hoop_comm_shrink(comm, &next), &next, "server");
    hoop_comm_destroy(comm);
    return wrong;
}

int
main(void)
{
    plan_lazy();
    party_open(&p);
    dies("one of four dies, and three go on", party_rounds(100), 4, (story){.deaths = 1});
    dies("one of two dies, and the other goes on alone", party_rounds(40), 2, (story){.deaths = 1});
    dies("five ranks die one after the other, of six", party_rounds(40), 6, (story){.deaths = 5});
    dies("three of eight die at once", party_rounds(40), 8, (story){.deaths = 1, .at_once = 2});
    dies("one of five dies, and another one while they shrink", party_rounds(100), 5,
         (story){.deaths = 1, .at_once = 1, .in_shrink = 1});
    party_expect(&p, 4, healthy, NULL, 90, "a ring in which nobody has died");
    party_expect(&p, 3, misused, NULL, 90, "misuse");
    party_run(&p, 4, left, NULL, 90);
    without_rank_1("nobody waits for a rank that leaves its failed ring");
    for (int round = 0; round < party_rounds(40); round++) {
        uint64_t seed = tap_random();
        party_run(&p, 5, in_a_split, &seed, 90);
        without_rank_1("a rank dies in a split");
    }
    party_run(&p, 6, parts, NULL, 90);
    without_rank_1("a part of the ring is shrunk, and the ring");
    setenv("HOOP_QUORUM", "majority", 1);
    is_int(3, party_run(&p, 4, majority, NULL, 90), "three die one after the other, and more than half must be left");
    is_int(0, p.guest[0].status, "... %s", p.guest[0].note);
    unsetenv("HOOP_QUORUM");
    setenv("HOOP_SHM", "0", 1);
    setenv("HOOP_CHANNELS", "2", 1);
    dies("one of four dies, with two channels over TCP", party_rounds(40), 4, (story){.deaths = 1});
    unsetenv("HOOP_CHANNELS");
    unsetenv("HOOP_SHM");
    stopped();
    setenv("HOOP_BOOTSTRAP_TIMEOUT_MS", "6000", 1);
    is_int(1, party_run(&p, 3, unserved, NULL, 90), "without a server there is no next ring");
    party_close(&p);
    return tap_failures() != 0;
}
