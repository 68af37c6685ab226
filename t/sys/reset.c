/* SPDX-License-Identifier: MIT */
/*
 * Connections that are reset between processes that live: one of the ring ends the job, with one sentence on all ranks
 * that names both its ends, whatever the ranks do after it; one to the server is made again, and nobody notices, also
 * when a process is killed after that.
 */
#include "hoop.h"
#include "t/sys/told.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* RANKS: so many have no chord before they use it, which a reset could hit and nobody would see. */
enum { RANKS = 9, FEW = 4, COUNT = 1 << 17, DESCRIPTORS = 256 };

typedef struct plot {
    int victim;
    int server;    /* 1: the way to the server is reset, 0: one to another rank */
    double at;     /* seconds after the ring stands */
    double linger; /* before destroy */
    double run;    /* seconds of operations; 0: until an error */
} plot;

static int
server_port(void)
{
    return atoi(strrchr(p.address, ':') + 1);
}

/* Whether it is a TCP connection to the server, or to another rank. */
static int
leads(int fd, int to_server)
{
    struct sockaddr_in to = {0};
    socklen_t length = sizeof(to), n = sizeof(int);
    int type = 0;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &n) == 0 && type == SOCK_STREAM &&
           getpeername(fd, (struct sockaddr *)&to, &length) == 0 && to.sin_family == AF_INET &&
           (ntohs(to.sin_port) == server_port()) == to_server;
}

/*
 * As `ss -K` does it: both sides get a reset. Each descriptor is held meanwhile: the library may close one at any time,
 * and then its number may be that of the listener, which the same call would close.
 */
static int
reset_one(int server)
{
    int found[DESCRIPTORS], n = 0;
    for (int fd = 3; fd < DESCRIPTORS; fd++) {
        int held = fcntl(fd, F_DUPFD_CLOEXEC, DESCRIPTORS);
        if (held >= 0 && leads(held, server))
            found[n++] = held;
        else if (held >= 0)
            close(held);
    }
    struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    int done = n > 0 && connect(found[tap_random() % (uint64_t)n], &nobody, sizeof(nobody)) == 0;
    while (n > 0)
        close(found[--n]);
    return done;
}

static void *
reset_later(void *arg)
{
    const plot *s = arg;
    party_nap(s->at);
    if (!reset_one(s->server))
        abort();
    party_mark();
    return NULL;
}

/* All ranks end together: who leads says in every round whether it is the last one. None is before the reset. */
static hoop_result
work(hoop_comm *comm, double seconds, int *wrong)
{
    static float in[COUNT], out[COUNT];
    int rank = hoop_comm_rank(comm), size = hoop_comm_size(comm);
    double end = party_clock() + seconds;
    hoop_result result = HOOP_SUCCESS;
    for (int round = 1; result == HOOP_SUCCESS; round++) {
        for (int i = 1; i < COUNT; i++)
            in[i] = (float)((rank + 1) * (1 + (i + round) % 13));
        in[0] = rank == 0 && seconds > 0 && party_clock() > end && party_has_marks(1);
        result = hoop_allreduce(in, out, COUNT, HOOP_FLOAT32, HOOP_SUM, comm);
        for (int i = 1; i < COUNT && result == HOOP_SUCCESS; i++)
            *wrong += out[i] != (float)(size * (size + 1) / 2 * (1 + (i + round) % 13));
        if (result == HOOP_SUCCESS && out[0] > 0)
            return result;
    }
    return result;
}

static int
rank_of_plot(int rank, int size, void *arg)
{
    plot *s = arg;
    hoop_comm *comm;
    pthread_t thread;
    int wrong = 0;
    if (party_create(&comm) != HOOP_SUCCESS)
        return 3;
    if (rank == s->victim && pthread_create(&thread, NULL, reset_later, s) != 0)
        return 4;
    hoop_result result = work(comm, s->run, &wrong);
    tell_of(comm, result, 0, wrong);
    party_nap(s->linger);
    hoop_comm_destroy(comm);
    if (rank == s->victim)
        pthread_join(thread, NULL);
    return 0;
}

/*
 * The victim has an event loop of its own, starts an operation, looks for a while and then computes; meanwhile its way to
 * the server is reset, if that is the plot. `run`: so often it looks once in 1.2 s instead.
 */
static int
computes(int rank, int size, void *arg)
{
    static float in[COUNT], out[COUNT];
    const plot *s = arg;
    hoop_comm *comm;
    hoop_work *w = NULL;
    int done = 0;
    if (party_create(&comm) != HOOP_SUCCESS)
        return 3;
    hoop_result result = hoop_allreduce(in, out, COUNT, HOOP_FLOAT32, HOOP_SUM, comm);
    if (rank == s->victim && hoop_comm_fd(comm) < 0)
        return 4;
    if (rank == (s->victim + FEW - 1) % FEW && !s->server)
        party_await_marks(FEW - 1); /* the others have failed */
    else if (rank == (s->victim + FEW - 1) % FEW)
        party_nap(s->linger);
    if (result == HOOP_SUCCESS)
        result = hoop_iallreduce(in, out, COUNT, HOOP_FLOAT32, HOOP_SUM, comm, &w);
    for (int i = 0; i < 40 && rank == s->victim && s->server && result == HOOP_SUCCESS; i++, party_nap(0.01))
        result = hoop_work_test(w, &done);
    if (rank == s->victim && s->server && !reset_one(1))
        return 5;
    if (rank == s->victim)
        party_nap(s->at);
    while (rank == s->victim && s->run > 0 && !done && result == HOOP_SUCCESS) {
        party_nap(s->run);
        result = hoop_work_test(w, &done);
    }
    result = result == HOOP_SUCCESS ? hoop_work_wait(w, -1) : result;
    party_mark();
    tell(comm, result, 0);
    hoop_comm_destroy(comm);
    return 0;
}

static void *
continue_later(void *arg)
{
    party_nap(((const plot *)arg)->at);
    kill(p.server, SIGCONT);
    return NULL;
}

/* The victim's way to the server is reset before it leaves, and the server is frozen for a while. */
static int
leaves(int rank, int size, void *arg)
{
    plot *s = arg;
    pthread_t thread;
    hoop_comm *comm = party_join(1);
    if (rank == s->victim &&
        (kill(p.server, SIGSTOP) != 0 || pthread_create(&thread, NULL, continue_later, s) != 0 || !reset_one(1)))
        return 5;
    hoop_result result = hoop_comm_destroy(comm);
    if (rank == s->victim)
        pthread_join(thread, NULL);
    return result != HOOP_SUCCESS;
}

/* As soon as there is a way to the server after `at`, within a quarter of a second. */
static void *
reset_when_there(void *arg)
{
    const plot *s = arg;
    double until = party_clock() + 0.25;
    party_nap(s->at);
    while (!reset_one(1) && party_clock() < until)
        party_nap(0.0001);
    return NULL;
}

/* The victim's way to the server is reset while all make a communicator, or split it: linger 0 or 1. */
static int
meets(int rank, int size, void *arg)
{
    plot *s = arg;
    hoop_comm *comm = NULL, *part = NULL;
    hoop_error e = {.size = sizeof(e)};
    pthread_t thread;
    int32_t one = 1, sum = 0;
    int hurt = rank == s->victim, splits = s->linger > 0;
    if (hurt && !splits && pthread_create(&thread, NULL, reset_when_there, s) != 0)
        return 4;
    hoop_result result = party_create(&comm);
    if (hurt && splits && pthread_create(&thread, NULL, reset_when_there, s) != 0)
        return 4;
    if (result == HOOP_SUCCESS)
        result = hoop_comm_split(comm, rank == size - 1 ? -1 : 0, 0, &part);
    if (result == HOOP_SUCCESS)
        result = part ? hoop_allreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, part) : HOOP_SUCCESS;
    if (result == HOOP_SUCCESS && !part)
        sum = size - 1;
    hoop_comm_error(comm, &e);
    party_note("%d %d %s", (int)result, (int)sum, e.text);
    if (hurt)
        pthread_join(thread, NULL);
    hoop_comm_destroy(part);
    hoop_comm_destroy(comm);
    return result != HOOP_SUCCESS || sum != size - 1;
}

static int sure; /* how often all_say has found the server's own sentence on all ranks */

/*
 * Every rank has the right error, by `most` seconds after `since`, and it knows the operation. It is the server's, so all have
 * the same one. But a rank does not wait for that for more than 0.8 s, which a busy machine may take: then it says so.
 */
static int
all_say(int except, int victim, double since, double most, const char *part)
{
    told first = hear(except == 0);
    char name[32];
    int good = 1, same = 1;
    snprintf(name, sizeof(name), "rank %d (", victim);
    for (int rank = 0; rank < p.size; rank++) {
        told t = hear(rank);
        if (rank == except)
            continue;
        same &= t.flags == 0 && strcmp(t.text, first.text) == 0;
        good &= p.guest[rank].status == 0 && t.result == HOOP_ERR_PEER_LOST && t.operation > 0 && t.wrong == 0 &&
                t.rank == first.rank && strstr(t.text, part) && strstr(t.text, name) &&
                (since <= 0 || t.at - since <= most + tap_room());
        good &= t.flags || first.flags || strcmp(t.text, first.text) == 0;
    }
    sure += same;
    return good ? 1 : show(part);
}

/* For a check that has failed. */
static void
show_log(void)
{
    char line[512];
    FILE *f = fopen(p.log, "r");
    while (f && fgets(line, sizeof(line), f))
        diag("%.*s", (int)strcspn(line, "\n"), line);
    if (f)
        fclose(f);
}

static double
moment(void)
{
    return 0.2 + (double)(tap_random() % 1000) / 3000;
}

/* What the programs do after their error must not matter to the others. */
static void
data_reset(int n, double linger, const char *what)
{
    int good = 0, before = sure, failed = party_says(&p, "failed: the connection between"),
        over = party_says(&p, "over: ");
    for (int i = 0; i < n; i++) {
        plot s = {.victim = (int)(tap_random() % RANKS), .at = moment(), .linger = linger};
        party_run(&p, RANKS, rank_of_plot, &s, 90);
        good += all_say(-1, s.victim, 0, 0, "the connection between rank ");
    }
    if (n > 0)
        diag("%s", hear(0).text);
    is_int(n, good, "a connection between two ranks is reset, %s: all ranks hear of both ends", what);
    ok(sure > before || n == 0, "in one sentence");
    for (tap_wait w = {0}; party_says(&p, "failed: the connection between") < failed + n && tap_waits(&w);)
        party_nap(0.01); /* the server may write the last line when the ranks have gone */
    is_int(n, party_says(&p, "failed: the connection between") - failed, "the server says so");
    is_int(0, party_says(&p, "over: ") - over, "and never that all is well");
}

static int
left_in_peace(void)
{
    return party_says(&p, "over: all 4 ranks left");
}

static void
control_reset(int n)
{
    int good = 0;
    for (int i = 0; i < n; i++) {
        plot s = {.victim = (int)(tap_random() % FEW), .server = 1, .at = moment(), .run = 1.2};
        int bad = party_run(&p, FEW, rank_of_plot, &s, 90);
        for (int rank = 0; rank < FEW; rank++)
            bad += hear(rank).result != HOOP_SUCCESS || hear(rank).wrong;
        good += !bad || show("control");
    }
    is_int(n, good, "the way of a rank to the server is reset within operations: all are right, nobody notices");
    for (tap_wait w = {0}; left_in_peace() < n && tap_waits(&w);)
        party_nap(0.01);
    if (!is_int(n, left_in_peace(), "all leave in peace"))
        show_log();
}

static void
reset_at_the_end(int n)
{
    int bad = 0, before = left_in_peace();
    for (int i = 0; i < n; i++) {
        plot s = {.victim = (int)(tap_random() % FEW), .at = 1.5};
        bad += party_run(&p, FEW, leaves, &s, 90);
    }
    is_int(0, bad, "the way to the server is reset when a rank leaves, and the server is frozen for 1.5 s");
    for (tap_wait w = {0}; left_in_peace() < before + n && tap_waits(&w);)
        party_nap(0.01);
    if (!is_int(n, left_in_peace() - before, "the rank waits until the server has its word"))
        show_log();
}

/* `splits` 1: in a split; 0: while the communicator is made. */
static void
moments(int splits, const char *what)
{
    enum { MOMENTS = 40 };
    int good = 0, before = left_in_peace();
    for (int i = 0; i < MOMENTS; i++) {
        plot s = {.victim = i % FEW, .at = i * 0.0005, .linger = splits};
        good += party_run(&p, FEW, meets, &s, 30) == 0 || show(what);
    }
    is_int(MOMENTS, good, "the way to the server is reset at each of %d moments of %s: no harm", MOMENTS, what);
    for (int i = 0; i < 3000 && left_in_peace() < before + MOMENTS; i++)
        party_nap(0.01);
    if (!is_int(MOMENTS, left_in_peace() - before, "and all leave in peace"))
        show_log();
}

/* `whose`: 0: the rank whose line was reset is killed, 1: the next one, of which the server tells the first. */
static void
then_killed(int n, int whose, double after, const char *what)
{
    int good = 0, before = sure;
    for (int i = 0; i < n; i++) {
        plot s = {.victim = (int)(tap_random() % FEW), .server = 1, .at = 0.3};
        int dead = (s.victim + whose) % FEW;
        party_start(&p, FEW, rank_of_plot, &s, 90);
        party_await_marks(1);
        party_nap(0.3 + after);
        double at = party_clock();
        kill(p.guest[dead].pid, SIGKILL);
        party_wait(&p);
        good += all_say(dead, dead, at, 1.0, "vanished");
    }
    is_int(n, good, "%s: all hear who it was at once", what);
    ok(sure > before, "and from the server");
}

static void
own_loop(int n)
{
    int good = 0;
    for (int i = 0; i < n; i++) {
        plot s = {.victim = (int)(tap_random() % FEW), .server = 1, .at = 2, .linger = 1.5};
        int bad = party_run(&p, FEW, computes, &s, 90);
        for (int rank = 0; rank < FEW; rank++)
            bad += hear(rank).result != HOOP_SUCCESS;
        good += !bad || show("own loop");
    }
    is_int(n, good, "the way to the server of a rank that drives by descriptor is reset while it computes: no harm");
}

/* Who looks seldom is in the operation all the same; who sleeps before it is not. */
static void
seldom(int n)
{
    int good = 0;
    setenv("HOOP_OP_TIMEOUT_MS", "8000", 1);
    for (int i = 0; i < n; i++) {
        plot s = {.victim = (int)(tap_random() % FEW), .run = 1.1 + (double)(tap_random() % 100) / 400};
        int guilty = (s.victim + FEW - 1) % FEW, bad = party_run(&p, FEW, computes, &s, 90);
        for (int rank = 0; rank < FEW; rank++)
            bad += hear(rank).result != HOOP_ERR_TIMEOUT || hear(rank).rank != guilty;
        good += !bad || show("seldom");
    }
    unsetenv("HOOP_OP_TIMEOUT_MS");
    is_int(n, good, "a rank that drives by descriptor and looks once in more than a second is not taken for absent");
}

/* Each scene has a server of its own, and counts the lines of that. */
static void
play(int scene)
{
    party_open(&p);
    switch (scene) {
    case 0:
        data_reset(party_rounds(140), 0, "programs destroy at once");
        data_reset(party_rounds(120), 2, "programs sleep 2 s before");
        break;
    case 1:
        control_reset(getenv("HOOP_TEST_FULL") ? 20 : 5);
        reset_at_the_end(party_rounds(40));
        own_loop(party_rounds(40));
        break;
    case 2:
        moments(0, "hoop_comm_create");
        moments(1, "hoop_comm_split");
        then_killed(party_rounds(60), 0, 0, "a rank's way to the server is reset, then it is killed");
        then_killed(party_rounds(60), 1, 0.4, "a rank's way to the server is reset, then another is killed");
        break;
    default: seldom(party_rounds(40));
    }
    party_close(&p);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    tap_scenes(4, play);
    return 0;
}
