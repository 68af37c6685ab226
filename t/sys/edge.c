/* SPDX-License-Identifier: MIT */
/*
 * What hoop promises when the network between two ranks, or between a rank and the server, delays, cuts, resets, stalls
 * or changes what it carries: the ring either finishes with the right bits or every rank's call ends in
 * bounded time with an error that names the edge. HOOP_TEST_FULL=1 runs the full number of rounds.
 */
#include "hoop.h"
#include "net/frame.h"
#include "t/sys/told.h"
#include "t/tools/proxy.h"

#include <linux/filter.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RANKS = 3, BEHIND = 1, BEFORE = 0, HELLO = 192, ANSWER = 176, SERVER = PROXY_DOORS - 1 };

static proxy *x;

typedef struct plot {
    size_t count;
    int times;     /* allreduces */
    int all;       /* every rank is behind a door of its own, and ISOLATED reaches the server through one */
    int to_server; /* BEHIND reaches the server through a door, and nothing else is in the way */
    double deaf;   /* BEHIND hears nothing more so long after it has joined; 0: it does */
    double pause;  /* after the first allreduce */
} plot;

static float
value(int rank, size_t i, int round)
{
    return (float)(rank + 1) * (float)(1 + (i + (size_t)round) % 11);
}

static void
stand(const plot *s, int rank)
{
    char text[32];
    snprintf(text, sizeof(text), "127.0.0.1:%d", atomic_load(&x->door[SERVER].port));
    if (rank == BEHIND && (s->all || s->to_server))
        setenv("HOOP_RENDEZVOUS", text, 1);
    if (s->all)
        proxy_stand_before(x, rank);
    else if (rank == BEHIND && !s->to_server)
        proxy_stand_before(x, 0);
}

/* From here on every packet to this process is dropped, as if the network were gone behind its peers' backs. */
static void *
deafen(void *after)
{
    struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
    struct sock_fprog program = {1, &nothing};
    party_nap(*(const double *)after);
    atomic_store(&x->door[0].done_at, (unsigned long long)(party_clock() * 1e9));
    for (int fd = 3; fd < 256; fd++)
        setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)); /* what is no socket refuses */
    return NULL;
}

/* Allreduces, every element checked. */
static int
work(int rank, int size, void *arg)
{
    const plot *s = arg;
    hoop_comm *comm = NULL;
    float *in = malloc(s->count * sizeof(*in)), *out = malloc(s->count * sizeof(*out)), factor = 0;
    int wrong = 0;
    stand(s, rank);
    hoop_result result = party_create(&comm);
    pthread_t thread;
    if (s->deaf > 0 && rank == BEHIND)
        pthread_create(&thread, NULL, deafen, (void *)(uintptr_t)&s->deaf);
    for (int i = 1; i <= size; i++)
        factor += (float)i;
    for (int round = 0; round < s->times && result == HOOP_SUCCESS; round++) {
        if (round == 1 && s->pause > 0)
            party_nap(s->pause);
        for (size_t i = 0; i < s->count; i++)
            in[i] = value(rank, i, round);
        result = hoop_allreduce(in, out, s->count, HOOP_FLOAT32, HOOP_SUM, comm);
        for (size_t i = 0; i < s->count && result == HOOP_SUCCESS; i++)
            wrong += out[i] != factor * value(0, i, round);
    }
    tell_of(comm, result, 0, wrong);
    if (s->deaf > 0 && rank == BEHIND)
        pthread_join(thread, NULL);
    hoop_comm_destroy(comm);
    free(in);
    free(out);
    return 0;
}

static int
all_right(void)
{
    int good = 1;
    for (int rank = 0; rank < RANKS; rank++)
        good &= p.guest[rank].status == 0 && hear(rank).result == HOOP_SUCCESS && hear(rank).wrong == 0;
    return good;
}

/* Every rank has this error, of an operation, by `most` seconds after `since`, blames an end of the edge, and was never
 * wrong. */
static int
all_fail(hoop_result code, double since, double most)
{
    int good = 1;
    for (int rank = 0; rank < RANKS; rank++) {
        told t = hear(rank);
        good &= p.guest[rank].status == 0 && t.result == (int)code && t.wrong == 0 && t.at - since <= most;
        good &= (t.rank == BEHIND || t.rank == BEFORE) && t.operation > 0;
    }
    return good;
}

static double
done_at(const proxy_door *door)
{
    return (double)atomic_load(&door->done_at) / 1e9;
}

/* The bytes towards BEHIND that lie before its last allreduce, in which others may be done already. */
static uint64_t
measured(plot *s)
{
    proxy_reset(x);
    party_run(&p, RANKS, work, s, 90);
    if (!all_right())
        show("nothing happens");
    ok(all_right(), "through a proxy that changes nothing: %llu bytes there, %llu back",
       (unsigned long long)atomic_load(&x->door[0].passed[0]), (unsigned long long)atomic_load(&x->door[0].passed[1]));
    return (uint64_t)atomic_load(&x->door[0].passed[0]) / (uint64_t)s->times * (uint64_t)(s->times - 1);
}

static void
set(proxy_door *door, proxy_act act, int back, uint64_t at, int bit)
{
    atomic_store(&door->back, back);
    atomic_store(&door->at, at);
    atomic_store(&door->bit, bit);
    atomic_store(&door->act, act);
}

/* One round with one act. 1 if it ended as it must: within the handshake another try succeeds. */
static int
try_act(plot *s, proxy_act act, int back, uint64_t at, int bit, hoop_result code)
{
    int good, shaking = at < (back ? ANSWER : HELLO);
    proxy_reset(x);
    set(&x->door[0], act, back, at, bit);
    party_run(&p, RANKS, work, s, 90);
    good = shaking ? all_right() : all_fail(code, done_at(&x->door[0]), 1.0);
    if (!back && at == HELLO) /* the other side may have been let in, or not yet */
        good |= all_right();
    if (!good) {
        diag("act %d, %s, byte %llu, bit %d, %s", act, back ? "back" : "there", (unsigned long long)at, bit,
             atomic_load(&x->door[0].done) ? "done" : "never reached");
        show("then");
    }
    return good;
}

/* The proxy ends the connection at a byte, by a reset or by an end of file. */
static void
breaks(plot *s, uint64_t bytes)
{
    int good = 0, n = party_rounds(200), heads = party_rounds(65) * 2;
    for (int i = 0; i < n; i++)
        good += try_act(s, PROXY_RESET, 0, tap_pick(bytes), 0, HOOP_ERR_PEER_LOST);
    is_int(n, good, "a reset at a random byte: PEER_LOST that names the edge within 1 s, or another try");
    good = 0;
    for (int i = 0; i < n; i++)
        good += try_act(s, PROXY_CUT, 0, tap_pick(bytes), 0, HOOP_ERR_PEER_LOST);
    is_int(n, good, "an end of file at a random byte: the same");
    good = 0;
    for (int i = 0; i < heads; i++)
        good +=
            try_act(s, i % 2 ? PROXY_CUT : PROXY_RESET, 0, HELLO + (uint64_t)(i * 65 / heads), 0, HOOP_ERR_PEER_LOST);
    is_int(heads, good, "... within the first frame's head");
    good = 0;
    for (int i = 0; i < n; i++)
        good += try_act(s, i % 2 ? PROXY_CUT : PROXY_RESET, i % 4 / 2, tap_pick(i % 4 / 2 ? ANSWER : HELLO), 0,
                        HOOP_ERR_PEER_LOST);
    is_int(n, good, "... within the handshake: it is made again");
}

/* The proxy changes one bit. */
static void
flips(plot *s, uint64_t bytes)
{
    int good = 0, n = getenv("HOOP_TEST_FULL") ? 1000 : 20;
    setenv("HOOP_CHECKSUM", "payload", 1);
    for (int i = 0; i < n; i++)
        good += try_act(s, PROXY_FLIP, 0, HELLO + tap_pick(bytes - HELLO), (int)tap_pick(8), HOOP_ERR_CORRUPT);
    unsetenv("HOOP_CHECKSUM");
    is_int(n, good, "checksums on, one bit of the stream is another: CORRUPT on every rank, never a wrong result");
    good = 0;
    for (int i = 0; i < n / 2; i++)
        good += try_act(s, PROXY_FLIP, 0, HELLO + tap_pick(hp_frame_head(HP_FRAME_CALL)), (int)tap_pick(8),
                        HOOP_ERR_CORRUPT);
    is_int(n / 2, good, "checksums of heads only, one bit of a head is another: CORRUPT");
    good = 0;
    for (int i = 0; i < n / 4; i++)
        good += try_act(s, PROXY_FLIP, i % 2, tap_pick(i % 2 ? ANSWER : HELLO), (int)tap_pick(8), HOOP_ERR_CORRUPT);
    is_int(n / 4, good, "one bit of the handshake is another: it is made again");
}

/* The result does not depend on how bytes are cut into pieces, nor on their speed as long as some arrive. */
static void
pieces(void)
{
    static const struct {
        unsigned segment;
        size_t count;
        const char *buffers;
    } how[] = {{1, 300, ""}, {1, 8000, ""}, {1500, 100000, ""}, {1500, 30000, "4096"}, {0, 100000, "4096"}};
    for (size_t i = 0; i < sizeof(how) / sizeof(how[0]); i++) {
        plot s = {.count = how[i].count, .times = 3, .all = 1};
        proxy_reset(x);
        for (int d = 0; d < PROXY_DOORS; d++)
            atomic_store(&x->door[d].segment, how[i].segment);
        if (*how[i].buffers) {
            setenv("HOOP_SNDBUF", how[i].buffers, 1);
            setenv("HOOP_RCVBUF", how[i].buffers, 1);
        }
        party_run(&p, RANKS, work, &s, 60);
        if (!all_right())
            show("pieces");
        ok(all_right(), "%zu numbers in pieces of 1 to %u bytes%s: right", how[i].count, how[i].segment,
           *how[i].buffers ? ", buffers of 4 KiB" : "");
        unsetenv("HOOP_SNDBUF");
        unsetenv("HOOP_RCVBUF");
    }
}

static void
slowness(void)
{
    plot s = {.count = 70000, .times = 1};
    double begin = party_clock();
    proxy_reset(x);
    atomic_store(&x->door[0].rate, 150000);
    setenv("HOOP_OP_TIMEOUT_MS", "1000", 1);
    party_run(&p, RANKS, work, &s, 60);
    unsetenv("HOOP_OP_TIMEOUT_MS");
    if (!all_right())
        show("slow");
    ok(all_right() && party_clock() - begin > 1.5, "an edge of 1.2 Mbit/s, %.1f s with a time-out of 1 s: right",
       party_clock() - begin);
}

/* Bytes are lost, and neither end of the connection gets an error. */
static void
stalls(plot *s, uint64_t bytes)
{
    int good = 0, n = party_rounds(50);
    setenv("HOOP_OP_TIMEOUT_MS", "1000", 1);
    for (int i = 0; i < n; i++) {
        proxy_reset(x);
        set(&x->door[0], PROXY_STALL, 0, HELLO + tap_pick(bytes - HELLO), 0);
        party_run(&p, RANKS, work, s, 90);
        int fine = all_fail(HOOP_ERR_TIMEOUT, done_at(&x->door[0]), 2.0);
        if (!fine) {
            diag("stalled at byte %llu, %.3f", (unsigned long long)atomic_load(&x->door[0].at), done_at(&x->door[0]));
            show("then");
        }
        good += fine;
    }
    unsetenv("HOOP_OP_TIMEOUT_MS");
    is_int(n, good, "one direction of an edge goes silent: TIMEOUT within op_timeout + 1 s that names the edge");
}

/*
 * A half-open connection. In an operation the time-out ends it, between operations TCP keepalive does. The deaf rank
 * does not hear the server either: it begins to judge by itself after two seconds, listens for three heartbeats and
 * waits 0.6 s for a rank that knows more.
 */
static void
half_open(int n)
{
    plot s = {.count = 300000, .times = 1000000};
    int good = 0;
    double most = 0;
    setenv("HOOP_OP_TIMEOUT_MS", "1500", 1);
    for (int i = 0; i < n; i++) {
        s.deaf = 0.2 + (double)tap_pick(100) / 500;
        proxy_reset(x);
        party_run(&p, RANKS, work, &s, 90);
        int fine = 1;
        for (int rank = 0; rank < RANKS; rank++) {
            told t = hear(rank);
            double took = t.at - done_at(&x->door[0]);
            fine &= t.wrong == 0 && t.result == HOOP_ERR_TIMEOUT && took < (rank == BEHIND ? 2 + 0.75 + 0.6 : 1.5 + 1);
            most = took > most ? took : most;
        }
        good += fine;
        if (!fine)
            show("deaf");
    }
    is_int(n, good,
           "a rank's sockets hear nothing more in an operation: TIMEOUT within op_timeout + 1 s at the others, and "
           "within 3.4 s there (%.2f)",
           most);
}

/* Nobody is in an operation: keepalive notices it. */
static void
half_open_and_idle(void)
{
    plot s = {.count = 300000, .times = 2, .deaf = 2, .pause = 7.2};
    int good = 1;
    setenv("HOOP_OP_TIMEOUT_MS", "30000", 1);
    setenv("HOOP_KEEPALIVE_IDLE", "1", 1);
    setenv("HOOP_KEEPALIVE_INTERVAL", "1", 1);
    setenv("HOOP_KEEPALIVE_COUNT", "3", 1);
    proxy_reset(x);
    party_run(&p, RANKS, work, &s, 90);
    for (int rank = 0; rank < RANKS; rank++) {
        told t = hear(rank);
        good &= t.wrong == 0 && t.result == HOOP_ERR_PEER_LOST && t.at - done_at(&x->door[0]) < 5.2 + 1.5;
    }
    if (!good)
        show("deaf and idle");
    ok(good, "a rank's sockets hear nothing more between operations: the next call of every rank fails, keepalive "
             "1/1/3 has noticed within 5 s");
}

/* Nothing passes to or from rank BEHIND, neither on its edges nor on its way to the server. */
static void
isolate(int on)
{
    atomic_store(&x->door[BEHIND].stalled, on);
    atomic_store(&x->door[(BEHIND + 1) % RANKS].stalled, on);
    atomic_store(&x->door[SERVER].stalled, on);
}

static void
outages(void)
{
    plot s = {.count = 300000, .times = 80, .all = 1};
    int good = 0, n = party_rounds(50);
    setenv("HOOP_OP_TIMEOUT_MS", "2000", 1);
    for (int i = 0; i < n; i++) {
        proxy_reset(x);
        party_start(&p, RANKS, work, &s, 60);
        party_await(&p);
        party_nap(0.3 + (double)tap_pick(300) / 1000);
        isolate(1);
        party_nap(1);
        isolate(0);
        party_wait(&p);
        good += all_right();
        if (!all_right())
            show("an outage of 1 s");
    }
    is_int(n, good, "a rank is cut off for 1 s with a time-out of 2 s: right");
}

static void
cuts(int n)
{
    plot s = {.count = 300000, .times = 1000000, .all = 1};
    int good = 0, named = 0;
    double at, most = 0;
    setenv("HOOP_OP_TIMEOUT_MS", "2000", 1);
    for (int i = 0; i < n; i++) {
        int fine = 1;
        proxy_reset(x);
        party_start(&p, RANKS, work, &s, 60);
        party_await(&p);
        party_nap(0.3 + (double)tap_pick(300) / 1000);
        isolate(1);
        at = party_clock();
        party_wait(&p);
        for (int rank = 0; rank < RANKS; rank++) {
            told t = hear(rank);
            fine &= t.wrong == 0 && t.result == HOOP_ERR_TIMEOUT && t.at - at <= 3.3;
            named += rank != BEHIND && t.rank == BEHIND;
            most = t.at - at > most ? t.at - at : most;
        }
        good += fine;
        if (!fine) {
            diag("cut off at %.3f", at);
            show("an outage");
        }
    }
    unsetenv("HOOP_OP_TIMEOUT_MS");
    is_int(n, good, "a rank is cut off for good: every rank, that one too, ends within op_timeout + 1 s (%.2f)", most);
    is_int(n * (RANKS - 1), named, "the others name it");
}

/* The way to the server: what happens there ends the job by name, or does not matter. */
static void
control(void)
{
    plot s = {.count = 100000, .times = 20, .to_server = 1};
    int good = 0, n = party_rounds(200);
    for (int i = 0; i < n; i++) {
        static const proxy_act acts[] = {PROXY_RESET, PROXY_CUT, PROXY_FLIP, PROXY_STALL};
        int fine, right;
        proxy_reset(x);
        set(&x->door[SERVER], acts[i % 4], (int)tap_pick(2), tap_pick(700), (int)tap_pick(8));
        setenv("HOOP_BOOTSTRAP_TIMEOUT_MS", "3000", 1);
        party_run(&p, RANKS, work, &s, 90);
        unsetenv("HOOP_BOOTSTRAP_TIMEOUT_MS");
        right = all_right();
        fine = 1;
        for (int rank = 0; rank < RANKS; rank++) {
            told t = hear(rank);
            fine &= p.guest[rank].status == 0 && t.wrong == 0 && t.result >= 0 && p.guest[rank].seconds < 5;
            fine &= t.result == 0 || t.rank == BEHIND || rank == BEHIND; /* a last operation may be right on some */
        }
        good += right || fine;
        if (!right && !fine) {
            diag("act %d, %s, byte %llu", acts[i % 4], atomic_load(&x->door[SERVER].back) ? "back" : "there",
                 (unsigned long long)atomic_load(&x->door[SERVER].at));
            show("then");
        }
    }
    is_int(n, good, "the way to the server breaks, changes or stalls: right, or ended by name in time");
}

static void
open_all(void)
{
    party_open(&p);
    x = proxy_open();
    atomic_store(&x->door[SERVER].target, atoi(strrchr(p.address, ':') + 1));
}

static void
close_all(void)
{
    proxy_close(x);
    party_close(&p);
}

/* What waits for time-outs: the last ones of play_silence and play_cuts are three rounds side by side. */
enum { SCENES = 5 };

static void
play_silence(int scene)
{
    plot s = {.count = 50000, .times = 4};
    open_all();
    switch (scene) {
    case 0:
        stalls(&s, measured(&s));
        slowness();
        break;
    case 1: half_open_and_idle(); break;
    default: half_open((party_rounds(50) + 2) / 3);
    }
    close_all();
}

static void
play_cuts(int scene)
{
    open_all();
    switch (scene) {
    case 0: outages(); break;
    case 1: control(); break;
    default: cuts((party_rounds(50) + 2) / 3);
    }
    close_all();
}

int
main(void)
{
    plot s = {.count = 50000, .times = 4};
    tap_limit(240);
    plan_lazy();
    open_all();
    uint64_t bytes = measured(&s);
    if (bytes > 1000) {
        breaks(&s, bytes);
        flips(&s, bytes);
    }
    pieces();
    close_all();
    tap_scenes(SCENES, play_silence);
    tap_scenes(SCENES, play_cuts);
    return 0;
}
