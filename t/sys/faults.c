/* SPDX-License-Identifier: MIT */
/*
 * What hoop promises when ranks die, stop, come late or never: the survivors' calls end in bounded time, with the right
 * code, naming the right rank, and no wrong result is ever returned as success. HOOP_TEST_FULL=1 runs the full number of
 * rounds; the seed is printed.
 */
#include "hoop.h"
#include "t/sys/told.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 4, COUNT = 1 << 20 };

/* Allreduces for ever, every element checked, until an error; the last error is told. */
static int
work_until_error(hoop_comm *comm, size_t count, double pause)
{
    int rank = hoop_comm_rank(comm), size = hoop_comm_size(comm), wrong = 0;
    float *in = malloc(count * sizeof(*in) + 1), *out = malloc(count * sizeof(*out) + 1),
          sum = (float)(size * (size + 1) / 2);
    hoop_result result = HOOP_SUCCESS;
    for (int round = 1; result == HOOP_SUCCESS; round++) {
        for (size_t i = 0; i < count; i++)
            in[i] = (float)(rank + 1) * (float)(1 + (i + (size_t)round) % 13);
        memset(out, 0xff, count * sizeof(*out));
        result = hoop_allreduce(in, out, count, HOOP_FLOAT32, HOOP_SUM, comm);
        for (size_t i = 0; i < count && result == HOOP_SUCCESS; i++)
            wrong += out[i] != sum * (float)(1 + (i + (size_t)round) % 13);
        party_nap(pause);
    }
    tell_of(comm, result, 0, wrong);
    free(in);
    free(out);
    return wrong;
}

static hoop_comm *
join(void)
{
    hoop_comm *comm;
    if (party_create(&comm) == HOOP_SUCCESS)
        return comm;
    tell(NULL, 99, 0);
    exit(3);
}

typedef struct plot {
    int victim;
    double at; /* seconds after the ring stands */
    size_t count;
    double pause;
    int levels; /* ranks of a host; 0: all are on one */
} plot;

static int
endless(int rank, int size, void *arg)
{
    const plot *s = arg;
    hoop_comm *comm = join();
    int wrong = work_until_error(comm, s->count, s->pause);
    double before = party_clock();
    int sticky = hoop_barrier(comm) != HOOP_SUCCESS && party_clock() - before < 1;
    hoop_comm_destroy(comm);
    return wrong || !sticky;
}

static int
survivor_agrees(int rank, int victim, int code, double since, double most)
{
    told t = hear(rank);
    int good =
        p.guest[rank].status == 0 && t.result == code && t.rank == victim && t.wrong == 0 && t.at - since <= most;
    if (!good)
        diag("rank %d after %.3f s:", rank, t.at - since);
    return good;
}

static int
survivors_agree(int victim, int code, double since, double most)
{
    int good = 1;
    for (int rank = 0; rank < p.size; rank++)
        if (rank != victim)
            good &= survivor_agrees(rank, victim, code, since, most);
    return good || show("survivors");
}

/* A random rank is killed at a random instant, in an operation or between two. */
static void
killed(int n, size_t count, double pause, double most, const char *what)
{
    int good = 0;
    for (int i = 0; i < n; i++) {
        plot s = {.victim = (int)(tap_random() % RANKS), .count = count, .pause = pause};
        double at = 0.15 + (double)(tap_random() % 1000) / 4000, killed_at;
        party_start(&p, RANKS, endless, &s, 90);
        party_await(&p);
        party_nap(at);
        killed_at = party_clock();
        kill(p.guest[s.victim].pid, SIGKILL);
        party_wait(&p);
        good += survivors_agree(s.victim, HOOP_ERR_PEER_LOST, killed_at, most);
    }
    is_int(n, good, "%s: every survivor names the dead rank within %.1f s, no wrong result", what, most);
}

/* The others name a stopped rank at the time-out. When it goes on it gets an error too. */
static void
stopped(int n)
{
    int good = 0;
    setenv("HOOP_OP_TIMEOUT_MS", "1500", 1);
    for (int i = 0; i < n; i++) {
        plot s = {.victim = (int)(tap_random() % RANKS), .count = COUNT};
        double at;
        party_start(&p, RANKS, endless, &s, 90);
        party_await(&p);
        party_nap(0.3 + (double)(tap_random() % 1000) / 5000);
        at = party_clock();
        kill(p.guest[s.victim].pid, SIGSTOP);
        party_nap(3.2);
        kill(p.guest[s.victim].pid, SIGCONT);
        party_wait(&p);
        good += survivors_agree(s.victim, HOOP_ERR_TIMEOUT, at, 1.5 + 1.2) && hear(s.victim).result > 0;
    }
    unsetenv("HOOP_OP_TIMEOUT_MS");
    is_int(n, good, "stopped: every other rank names it in 1.5 to 2.7 s, the stopped one gets an error too");
}

static int
ten_operations(int rank, int size, void *arg)
{
    const plot *s = arg;
    hoop_comm *comm = join();
    float one[64] = {0};
    hoop_result result = HOOP_SUCCESS;
    for (int i = 0; i < 10 && result == HOOP_SUCCESS; i++) {
        if (rank == s->victim && i == 5)
            party_nap(s->at);
        result = hoop_allreduce(one, one, 64, HOOP_FLOAT32, HOOP_SUM, comm);
    }
    tell(comm, result, 0);
    hoop_comm_destroy(comm);
    return 0;
}

static int
all_name_the_late(void)
{
    int good = 1;
    for (int rank = 0; rank < RANKS; rank++) {
        told t = hear(rank);
        good &= t.result == HOOP_ERR_TIMEOUT && t.rank == 2 && strstr(t.text, "not entered");
    }
    return good || show("late");
}

/* A rank enters late, but in time, and then too late. A rank that polls as long as it can still reports that it lives. */
static void
late(void)
{
    plot s = {.victim = 2, .at = 0.8};
    setenv("HOOP_OP_TIMEOUT_MS", "1500", 1);
    ok(party_run(&p, RANKS, ten_operations, &s, 90) == 0 && hear(0).result == 0 && hear(3).result == 0,
       "a rank that enters 0.8 s late with a limit of 1.5 s: success everywhere");
    s.at = 2.6;
    party_run(&p, RANKS, ten_operations, &s, 90);
    ok(all_name_the_late(), "a rank that enters 2.6 s late: all time out, \"rank 2 ... has not entered\"");
    unsetenv("HOOP_OP_TIMEOUT_MS");
}

static void
late_for_the_sleepless(void)
{
    plot s = {.victim = 2, .at = 2.6};
    setenv("HOOP_OP_TIMEOUT_MS", "1500", 1);
    setenv("HOOP_SPIN", "1000000", 1);
    party_run(&p, RANKS, ten_operations, &s, 90);
    ok(all_name_the_late(), "the same while the others look a million times before they sleep");
    unsetenv("HOOP_SPIN");
    unsetenv("HOOP_OP_TIMEOUT_MS");
}

static int
leaves_early(int rank, int size, void *arg)
{
    const plot *s = arg;
    hoop_comm *comm = join();
    if (rank == s->victim) {
        party_nap(0.2);
        if (s->pause > 0)
            hoop_comm_destroy(comm);
        exit(0); /* without destroy: the process just ends */
    }
    work_until_error(comm, 1000, 0.001);
    hoop_comm_destroy(comm);
    return 0;
}

static void
left(void)
{
    for (int polite = 0; polite < 2; polite++) {
        plot s = {.victim = 1, .pause = polite};
        int good = 1;
        party_run(&p, RANKS, leaves_early, &s, 90);
        for (int rank = 0; rank < RANKS; rank++)
            good &=
                rank == 1 || (hear(rank).result == HOOP_ERR_PEER_LOST && hear(rank).rank == 1 && hear(rank).wrong == 0);
        ok(good || show("left"), "a rank %s: the others get PEER_LOST naming it",
           polite ? "destroys its communicator early" : "ends without destroy");
    }
}

/*
 * One rank, the victim, makes another call than the others. Other counts, kinds and groups, by any of the ranks, are
 * exchange.c's; another type is desync.t's.
 */
static int
disagree(int rank, int size, void *arg)
{
    const plot *s = arg;
    if (s->levels)
        party_set_host(rank, s->levels);
    hoop_comm *comm = join();
    static float in[10000], out[4096 * 16];
    int odd = rank == s->victim, way = (int)s->at;
    hoop_result r = hoop_allreduce(in, out, 100, HOOP_FLOAT32, HOOP_SUM, comm);
    double begin = party_clock();
    for (int i = 0; i < 2 && r == HOOP_SUCCESS; i++) /* who was done already learns it at the next call */
        switch (way) {
        case 0: r = hoop_allreduce(in, out, 100, HOOP_FLOAT32, odd ? HOOP_MAX : HOOP_SUM, comm); break;
        case 1: r = hoop_broadcast(in, out, 100, HOOP_FLOAT32, odd ? 1 : 0, comm); break;
        case 2: r = odd == (i == 0) ? hoop_barrier(comm) : hoop_gather(in, out, 100, HOOP_FLOAT32, 0, comm); break;
        case 3: r = hoop_reduce(in, out, odd ? 0 : 4096, HOOP_FLOAT32, HOOP_SUM, 2, comm); break;
        case 4:
            r = odd ? hoop_gather(in, out, 100, HOOP_FLOAT32, 0, comm)
                    : hoop_scatter(in, out, 100, HOOP_FLOAT32, 0, comm);
            break;
        case 5: /* the first partners of the doubling agree, so that only what is announced round the ring tells */
            r = rank / 2 == s->victim / 2 ? hoop_allgather(in, out, 100, HOOP_FLOAT32, comm)
                                          : hoop_allreduce(in, out, 10000, HOOP_FLOAT32, HOOP_SUM, comm);
            break;
        default:
            r = hoop_group_start(comm); /* the others may disagree already, and then no group is open */
            if (r == HOOP_SUCCESS) {
                hoop_allreduce(in, out, odd ? 30 : 40, HOOP_FLOAT32, HOOP_SUM, comm);
                hoop_allreduce(in + 100, out + 100, odd ? 40 : 30, HOOP_FLOAT32, HOOP_SUM, comm);
                r = hoop_group_end(comm);
            }
        }
    if (r == HOOP_SUCCESS) /* this rank's part was done before the others disagreed */
        r = hoop_barrier(comm);
    tell_of(comm, r, begin, party_clock() - begin > 1.0);
    hoop_comm_destroy(comm);
    return 0;
}

static void
mismatches(int levels)
{
    static const char *const ways[] = {
        "op", "root", "order", "count 0", "gather and scatter", "kind, with its partner", "a group's sizes"};
    for (int way = 0; way < 7; way++) {
        int good = 1, n = getenv("HOOP_TEST_FULL") ? RANKS : 2;
        for (int k = 0; k < n; k++) {
            plot s = {.victim = n == RANKS ? k : (int)(tap_random() % RANKS), .at = way, .levels = levels};
            party_run(&p, RANKS, disagree, &s, 90);
            for (int rank = 0; rank < RANKS; rank++) {
                told t = hear(rank);
                int right = t.result == HOOP_ERR_MISMATCH && !t.wrong && strstr(t.text, "rank") && t.text[0];
                if (!right)
                    diag("rank %d, odd one %d: %s", rank, s.victim, p.guest[rank].note);
                good &= right;
            }
            if (k == 0)
                diag("%s", hear(0).text);
        }
        ok(good, "one rank differs in %s: MISMATCH on all ranks within 1 s%s", ways[way],
           levels ? ", over levels" : "");
    }
}

static int
abort_it(int rank, int size, void *arg)
{
    hoop_comm *comm = join();
    if (rank == 2) {
        party_nap(0.2);
        hoop_comm_abort(comm, "the loss is NaN");
    }
    work_until_error(comm, 1000, 0);
    hoop_comm_destroy(comm);
    return 0;
}

static void
aborts(void)
{
    int good = 1;
    party_run(&p, RANKS, abort_it, NULL, 90);
    for (int rank = 0; rank < RANKS; rank++)
        good &=
            hear(rank).result == HOOP_ERR_ABORTED && hear(rank).rank == 2 && strstr(hear(rank).text, "the loss is NaN");
    ok(good || show("aborted"), "hoop_comm_abort: every rank gets the reason and who gave it");
}

/* The server dies. The ring goes on, and the neighbours of a rank that dies then still notice it. */
static int
without_server(int rank, int size, void *arg)
{
    const plot *s = arg;
    hoop_comm *comm = join();
    hoop_result r = HOOP_SUCCESS;
    float one[64] = {0};
    party_nap(0.5);
    for (int i = 0; i < 100 && r == HOOP_SUCCESS; i++)
        r = hoop_allreduce(one, one, 64, HOOP_FLOAT32, HOOP_SUM, comm);
    party_mark(); /* the last of them is over for this rank, if not for all */
    if (r == HOOP_SUCCESS && rank == s->victim && party_await_marks(size))
        raise(SIGKILL);
    if (r == HOOP_SUCCESS)
        r = work_until_error(comm, COUNT, 0) ? HOOP_ERR_INTERNAL : HOOP_SUCCESS;
    hoop_comm_destroy(comm);
    return r != HOOP_SUCCESS;
}

static void
server_dies(void)
{
    plot s = {.victim = 1};
    int good = 1, named = 0;
    party_start(&p, RANKS, without_server, &s, 90);
    party_await(&p);
    party_nap(0.3);
    kill(p.server, SIGKILL);
    party_wait(&p);
    for (int rank = 0; rank < RANKS; rank++) {
        if (rank == s.victim)
            continue;
        good &= p.guest[rank].status == 0 && hear(rank).result == HOOP_ERR_PEER_LOST;
        named += hear(rank).rank == s.victim;
    }
    ok((good && named >= 1) || show("without a server"),
       "the server dies: 100 more operations are right, and a death still ends every call (%d name it)", named);
}

/* A forked child that outlives its parent, such as a data loader, must not keep the parent's connections open. */
static int
parent_of_a_sleeper(int rank, int size, void *arg)
{
    const plot *s = arg;
    hoop_comm *comm = join();
    if (rank == s->victim && fork() == 0) {
        party_nap(4);
        _exit(0);
    }
    work_until_error(comm, 1000, 0.001);
    hoop_comm_destroy(comm);
    return 0;
}

static void
forked(void)
{
    plot s = {.victim = 1};
    double at;
    party_start(&p, RANKS, parent_of_a_sleeper, &s, 90);
    party_await(&p);
    party_nap(0.4);
    at = party_clock();
    kill(p.guest[s.victim].pid, SIGKILL);
    party_wait(&p);
    ok(survivors_agree(s.victim, HOOP_ERR_PEER_LOST, at, 1.0),
       "a killed rank with a living forked child is noticed too");
}

/* The first operation over a chord may wait for its other end longer than a bring-up may take. */
static int
late_for_chords(int rank, int size, void *arg)
{
    hoop_comm *comm = join();
    int32_t one = 1, sum = 0;
    hoop_result r;
    if (rank == 2)
        party_nap(2.0);
    r = hoop_allreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, comm);
    tell_of(comm, r, 0, sum != size);
    hoop_comm_destroy(comm);
    return r != HOOP_SUCCESS || sum != size;
}

static void
chords(void)
{
    setenv("HOOP_BOOTSTRAP_TIMEOUT_MS", "1000", 1);
    ok(party_run(&p, 5, late_for_chords, NULL, 90) == 0,
       "a rank late for the first use of the chords does not end the job");
    unsetenv("HOOP_BOOTSTRAP_TIMEOUT_MS");
}

/* What mostly waits. */
static void
play(int scene)
{
    party_open(&p);
    switch (scene) {
    case 0: late(); break;
    case 1: late_for_the_sleepless(); break;
    case 2:
    case 3:
    case 4: stopped((party_rounds(50) + 2) / 3); break;
    default:
        left();
        aborts();
        forked();
        chords();
        server_dies();
    }
    party_close(&p);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    party_open(&p);
    killed(party_rounds(200) * 2, COUNT, 0, 1.0, "SIGKILL in the middle of operations");
    killed(party_rounds(60), 10, 0.02, 1.0, "SIGKILL between operations");
    mismatches(0);
    mismatches(2);
    party_close(&p);
    tap_scenes(6, play);
    return 0;
}
