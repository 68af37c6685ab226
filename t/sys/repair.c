/* SPDX-License-Identifier: MIT */
/*
 * Connections that break while all ranks live, behind a proxy that resets or closes them: they are made again,
 * and every operation ends with the right bits. A rank that has ended is named as before, and a connection that breaks
 * again and again does not escape the time limit.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"
#include "t/tools/proxy.h"

#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SMALL = 256, LARGE = 4 << 20, FIRST_BYTES = 65 };

static party p;
static proxy *x;
static atomic_int *rounds; /* that rank 0 of a party has ended; the test sees it, too */

typedef struct plot {
    size_t small, large; /* elements */
    int span;            /* the cuts are so many bytes away; 0: first 0, 1, 2 ..., then anywhere */
    int cuts;            /* rank 0 has so many made: the first ones at the next bytes, in small operations */
    int again;           /* the test resets all connections until so many marks are set */
    int dies;            /* in this round, when it has begun, rank 1 is killed; 0: never */
    int direct;          /* no proxy */
    int unserved;        /* the server has ended before */
} plot;

static float
value(int rank, size_t i, int round)
{
    return (float)(rank + 1) * (float)(1 + (i + (size_t)round) % 11);
}

/* At this byte of so many connections through that door, one after the other. */
static void
cut_at(proxy_door *d, int back, uint64_t at, proxy_act how, int times)
{
    atomic_store(&d->act, PROXY_PASS);
    atomic_store(&d->back, back);
    atomic_store(&d->at, at);
    atomic_store(&d->times, times);
    atomic_store(&d->done, 0);
    atomic_store(&d->act, how);
}

/* `at` bytes from now on, on the connection that moved last through that door. */
static void
ask_for_cut_at(proxy_door *d, int back, uint64_t at, proxy_act how)
{
    cut_at(d, back, atomic_load(&d->passed[back]) + at, how, 1);
}

/* Few bytes go back. */
static void
ask_for_cut(int size, int cut, int span)
{
    proxy_door *d = &x->door[cut % size];
    int back = cut / 2 % 2;
    uint64_t at = span || cut >= FIRST_BYTES ? (uint64_t)(rand() % (back   ? 2000
                                                                    : span ? span
                                                                           : 2 * LARGE))
                                             : (uint64_t)cut;
    if (atomic_load(&d->act) == PROXY_PASS || atomic_load(&d->done))
        ask_for_cut_at(d, back, at, cut % 3 ? PROXY_RESET : PROXY_CUT);
}

static void
hold_doors(int size, int hold)
{
    for (int i = 0; i < size; i++)
        atomic_store(&x->door[i].stalled, hold);
}

/* Each rank sends to the next one and receives from the one before, short and long messages, two of each. */
static int
pass_messages(hoop_comm *comm, int rank, int size, float *in, float *out, size_t n, int round)
{
    int to = (rank + 1) % size, from = (rank + size - 1) % size, wrong = 0;
    size_t parts[] = {n / 2, 20, n / 4, 7}, at = 0;
    hoop_work *works[8];
    hoop_result result = HOOP_SUCCESS;
    for (int i = 0; i < 4; at += parts[i++]) {
        size_t count = parts[i];
        if (hoop_irecv(out + at, count, HOOP_FLOAT32, from, i, comm, &works[2 * i]) != HOOP_SUCCESS ||
            hoop_isend(in + at, count, HOOP_FLOAT32, to, i, comm, &works[2 * i + 1]) != HOOP_SUCCESS)
            return -1;
    }
    for (int i = 0; i < 8; i++) {
        hoop_result one = hoop_work_wait(works[i], -1);
        result = result ? result : one;
    }
    for (size_t i = 0; i < at && result == HOOP_SUCCESS; i++)
        wrong += out[i] != value(from, i, round);
    return result == HOOP_SUCCESS ? wrong : -1;
}

/* An allreduce, every element checked, or a broadcast from rank 0. Returns how many are wrong, or -1 after an error. */
static int
one(hoop_comm *comm, int rank, int size, float *in, float *out, size_t n, int round)
{
    float factor = (float)(size * (size + 1)) / 2;
    int wrong = 0, spread = round % 4 == 3;
    for (size_t i = 0; i < n; i++)
        in[i] = value(rank, i, round);
    memset(out, 0xa5, n * sizeof(*out));
    if (round % 4 == 1)
        return pass_messages(comm, rank, size, in, out, n, round);
    if (spread && rank == 0)
        memcpy(out, in, n * sizeof(*out));
    hoop_result result = spread ? hoop_broadcast(out, out, n, HOOP_FLOAT32, 0, comm)
                                : hoop_allreduce(in, out, n, HOOP_FLOAT32, HOOP_SUM, comm);
    for (size_t i = 0; i < n && result == HOOP_SUCCESS; i++)
        wrong += out[i] != (spread ? 1 : factor) * value(0, i, round);
    return result == HOOP_SUCCESS ? wrong : -1;
}

/* Tells "repairs code wrong rounds text". */
static int
work(int rank, int size, void *arg)
{
    const plot *s = arg;
    hoop_error e = {.size = sizeof(e)};
    hoop_comm *comm = NULL;
    float *in = malloc(s->large * sizeof(*in)), *out = malloc(s->large * sizeof(*out));
    int wrong = 0, round = 0, last = 0;
    if (!s->direct)
        proxy_stand_before(x, rank);
    hoop_result result = party_create(&comm);
    srand((unsigned)tap_seed());
    for (; result == HOOP_SUCCESS && !last && wrong >= 0; round++) {
        int is_small = round < FIRST_BYTES || s->large == s->small;
        if (rank == 0 && round < s->cuts)
            ask_for_cut(size, round, s->span);
        if (s->dies && round + 1 == s->dies && s->unserved && rank == 0)
            kill(p.server, SIGKILL);
        float go_on = round + 1 < s->cuts || s->dies || (s->again && !party_has_marks(s->again)), any = 0;
        if (s->dies && round == s->dies && rank == 1) {
            party_mark();
            raise(SIGKILL);
        }
        int bad = one(comm, rank, size, in, out, is_small ? s->small : s->large, round);
        wrong = bad < 0 ? bad : wrong + bad;
        /* rank 0 decides how long this goes on */
        if (bad >= 0 && hoop_broadcast(&go_on, &any, 1, HOOP_FLOAT32, 0, comm) != HOOP_SUCCESS)
            wrong = -1;
        last = any == 0;
        if (rank == 0)
            atomic_store(rounds, round);
    }
    hoop_stats stats = {.size = sizeof(stats)};
    hoop_comm_error(comm, &e);
    hoop_comm_stats(comm, &stats);
    party_note("%llu %d %d %d %s", (unsigned long long)stats.repairs, (int)(result ? result : e.code), wrong, round,
               e.text);
    hoop_comm_destroy(comm);
    free(in);
    free(out);
    return !s->dies && wrong != 0;
}

/* --- ranks that leave --- */

enum { LEAVES = 160, BRIEF = 4, LONG = 40000 };

/*
 * World after world: rank 0 sends an array and a message, the others take them, and all leave, while a connection breaks
 * after so many bytes of the last ones there or back. Odd worlds have rank 0 leave late, so that the others leave it.
 */
static int
leave_again_and_again(int rank, int size, void *arg)
{
    static float data[LONG];
    const plot *s = arg;
    hoop_config *config = hoop_config_new();
    hoop_error e = {.size = sizeof(e)};
    int wrong = 0, round = 0;
    proxy_stand_before(x, rank);
    srand((unsigned)tap_seed());
    for (; round < s->cuts && !wrong; round++) {
        char job[32];
        int at = s->cuts > LEAVES ? round % LEAVES : rand() % LEAVES;
        size_t n = round % 5 == 4 ? LONG : BRIEF;
        hoop_comm *comm = NULL;
        snprintf(job, sizeof(job), "%s.%d", getenv("HOOP_JOB"), round);
        hoop_config_set(config, "job", job);
        hoop_result result = hoop_comm_create(&comm, config);
        result = result ? result : hoop_barrier(comm);
        if (rank == 0)
            ask_for_cut_at(&x->door[round / 4 % size], round / 2 % 2, (uint64_t)at,
                           round % 3 ? PROXY_RESET : PROXY_CUT);
        for (size_t i = 0; i < n; i++)
            data[i] = rank == 0 ? (float)(round + (int)i) : 0;
        result = result ? result : hoop_broadcast(data, data, n, HOOP_FLOAT32, 0, comm);
        for (int peer = 1; peer < size && rank == 0; peer++)
            result = result ? result : hoop_send(data, BRIEF, HOOP_FLOAT32, peer, 7, comm);
        float got[BRIEF];
        if (rank > 0)
            result = result ? result : hoop_recv(got, BRIEF, HOOP_FLOAT32, 0, 7, comm);
        for (size_t i = 0; i < n; i++)
            wrong += data[i] != (float)(round + (int)i) || (rank > 0 && i < BRIEF && got[i] != data[i]);
        wrong = result ? -1 : wrong;
        hoop_comm_error(comm, &e);
        if (round % 2 == 1 && rank == 0)
            usleep(2000);
        hoop_comm_destroy(comm);
    }
    hoop_config_free(config);
    party_note("%d worlds, %d wrong: %s", round, wrong, e.text);
    return wrong != 0;
}

/* The ring is whole, and in operations. */
static void
await_round(void)
{
    int before = atomic_load(rounds);
    for (tap_wait w = {0}; atomic_load(rounds) == before && tap_waits(&w);)
        usleep(500);
}

static void
expect(const char *what)
{
    ok(party_failed(&p) == 0, "%s", what);
}

static int
repairs(int size)
{
    int all = 0;
    for (int rank = 0; rank < size; rank++)
        all += atoi(p.guest[rank].note);
    return all;
}

static void
test_every_byte(int size, const char *stripes, const char *checksum)
{
    plot s = {.small = SMALL, .large = LARGE / 4, .cuts = FIRST_BYTES + party_rounds(400)};
    proxy_reset(x);
    setenv("HOOP_STRIPES", stripes, 1);
    setenv("HOOP_CHECKSUM", checksum, 1);
    party_run(&p, size, work, &s, 300);
    char text[160];
    snprintf(text, sizeof(text), "%d ranks, %s stripes, checksum %s: %d cuts, at each byte and anywhere", size, stripes,
             checksum, s.cuts);
    expect(text);
    ok(repairs(size) > 5, "there were %d repairs at both ends of connections", repairs(size));
    unsetenv("HOOP_STRIPES");
    unsetenv("HOOP_CHECKSUM");
}

/* Of 16 MiB. */
static void
test_large(int size, const char *stripes)
{
    plot s = {.small = LARGE, .large = LARGE, .cuts = party_rounds(500), .span = LARGE};
    char text[160];
    proxy_reset(x);
    setenv("HOOP_STRIPES", stripes, 1);
    party_run(&p, size, work, &s, 300);
    unsetenv("HOOP_STRIPES");
    snprintf(text, sizeof(text), "%d ranks, %s stripes: %d operations of 16 MiB, a cut anywhere in each", size, stripes,
             s.cuts);
    expect(text);
    ok(repairs(size) > s.cuts / 5, "there were %d repairs at both ends of connections", repairs(size));
}

/* Without a server a rank that computes is no loss: its port answers. */
static int
compute_unserved(int rank, int size, void *arg)
{
    float in = (float)(rank + 1), sum = 0;
    hoop_error e = {.size = sizeof(e)};
    hoop_comm *comm = NULL;
    proxy_stand_before(x, rank);
    hoop_result result = party_create(&comm);
    result = result ? result : hoop_barrier(comm);
    party_mark();
    party_await_marks(size + 1); /* the test has stopped the server, and reset all connections */
    if (rank == 1)
        party_nap(15);
    result = result ? result : hoop_allreduce(&in, &sum, 1, HOOP_FLOAT32, HOOP_SUM, comm);
    hoop_comm_error(comm, &e);
    party_note("0 %d %.0f %s", (int)result, (double)sum, e.text);
    party_mark();
    hoop_comm_destroy(comm);
    return result != HOOP_SUCCESS || sum != (float)(size * (size + 1)) / 2;
}

static void
test_unserved(void)
{
    proxy_reset(x);
    setenv("HOOP_PEER_TIMEOUT_MS", "5000", 1);
    party_start(&p, 3, compute_unserved, NULL, 240);
    unsetenv("HOOP_PEER_TIMEOUT_MS");
    party_await_marks(3);
    kill(p.server, SIGSTOP);
    proxy_drop_all(x, 1);
    party_mark();
    party_await_marks(7); /* a rank that leaves waits for the server's word */
    kill(p.server, SIGCONT);
    party_wait(&p);
    expect("without a server, a rank that computes for longer than hosts may be away is no loss");
}

static void
test_leaving(int size)
{
    plot s = {.cuts = party_rounds(8 * LEAVES)};
    proxy_reset(x);
    party_run(&p, size, leave_again_and_again, &s, 300);
    char text[160];
    snprintf(text, sizeof(text), "%d ranks leave %d worlds while a connection breaks", size, s.cuts);
    expect(text);
}

/*
 * All connections of all ranks, so often that some break while they are made again. Before every second time a round has
 * ended, so that the ring is whole.
 */
static void
test_all_at_once(int size)
{
    plot s = {.small = SMALL, .large = LARGE / 8, .again = 1};
    int drops = 0;
    proxy_reset(x);
    party_start(&p, size, work, &s, 300);
    party_await(&p);
    for (int i = 0; i < party_rounds(200); i++, drops++) {
        int before = atomic_load(rounds);
        for (tap_wait w = {0}; i % 2 && atomic_load(rounds) == before && tap_waits(&w);)
            usleep(500);
        proxy_drop_all(x, 1 + i / 2 % 2);
        usleep((useconds_t)(rand() % 60000));
    }
    party_mark();
    party_wait(&p);
    char text[160];
    snprintf(text, sizeof(text), "%d ranks: all connections break at once, %d times", size, drops);
    expect(text);
    ok(repairs(size) > drops, "there were %d repairs at both ends of connections", repairs(size));
}

enum { HELLO = 64, HANDSHAKE = 500 }; /* bytes there of the first frame, and those of all and some of what follows */

/*
 * All connections break, and so does the first new one through each door, and every second time the one after that: at each
 * byte of the handshake and of what is sent again.
 */
static void
test_cut_again(int size)
{
    plot s = {.small = SMALL, .large = LARGE / 8, .again = 1};
    int turns = party_rounds(HANDSHAKE), again = 0;
    proxy_reset(x);
    party_start(&p, size, work, &s, 300);
    party_await(&p);
    for (int i = 0; i < turns; i++) {
        uint64_t at = turns == HANDSHAKE ? (uint64_t)i : tap_pick(HANDSHAKE);
        int times = 1 + i / 2 % 2;
        await_round();
        hold_doors(size, 1);
        proxy_drop_all(x, 1 + i % 2);
        for (int door = 0; door < size; door++)
            cut_at(&x->door[door], (door + i) % 2, at, i % 3 ? PROXY_RESET : PROXY_CUT, times);
        hold_doors(size, 0);
        await_round();
        for (int door = 0; door < size; door++) {
            atomic_store(&x->door[door].act, PROXY_PASS);
            again += times - atomic_load(&x->door[door].times);
        }
    }
    party_mark();
    party_wait(&p);
    char text[160];
    snprintf(text, sizeof(text), "%d ranks: all connections break, and new ones in their handshake, %d times", size,
             turns);
    expect(text);
    ok(again > turns, "%d of the new ones did", again);
}

/* No new connection brings anything, since it breaks in its first frame: the time limit of the operation ends that. */
static void
test_flapping(void)
{
    plot s = {.small = SMALL, .large = LARGE / 8, .again = 1};
    proxy_reset(x);
    setenv("HOOP_OP_TIMEOUT_MS", "6000", 1);
    setenv("HOOP_PEER_TIMEOUT_MS", "600000", 1);
    party_start(&p, 3, work, &s, 240);
    unsetenv("HOOP_OP_TIMEOUT_MS");
    unsetenv("HOOP_PEER_TIMEOUT_MS");
    party_await(&p);
    for (int door = 0; door < 3; door++)
        cut_at(&x->door[door], 0, tap_pick(HELLO), PROXY_RESET, INT_MAX);
    proxy_drop_all(x, 1);
    party_wait(&p);
    int failed = 0;
    for (int rank = 0; rank < 3; rank++) {
        int code = 0;
        sscanf(p.guest[rank].note, "%*d %d", &code);
        failed += code == HOOP_ERR_TIMEOUT;
    }
    ok(failed == 3, "connections that break again and again meet the time limit: %s", p.guest[0].note);
    for (int rank = 0; rank < 3 && failed < 3; rank++)
        diag("rank %d (status %#x): %s", rank, (unsigned)p.guest[rank].status, p.guest[rank].note);
}

/* Rank 0 has sent all and is in a split, rank 1 has nothing of it yet when their connection breaks. */
static int
is_split(int rank, int size, void *arg)
{
    float values[1000] = {0};
    hoop_comm *part = NULL;
    proxy_stand_before(x, rank);
    hoop_comm *comm = party_join(1);
    values[999] = rank == 0;
    if (rank == 0)
        atomic_store(&x->door[1].stalled, 1);
    if (hoop_broadcast(values, values, 1000, HOOP_FLOAT32, 0, comm) != HOOP_SUCCESS || values[999] != 1)
        return 1;
    party_mark();
    hoop_result result = hoop_comm_split(comm, 0, 0, &part);
    party_note("the split ends with %d", (int)result);
    hoop_comm_destroy(part);
    hoop_comm_destroy(comm);
    return result != HOOP_SUCCESS;
}

static void
test_split(void)
{
    proxy_reset(x);
    party_start(&p, 2, is_split, NULL, 120);
    ok(party_await_marks(1), "a rank goes on when it has sent");
    party_nap(0.2); /* into the split; sooner, the rank would need no background thread */
    proxy_drop_all(x, 1);
    atomic_store(&x->door[1].stalled, 0);
    party_wait(&p);
    expect("a connection that breaks while a rank is in a split");
}

/* --- what is seen of it --- */

enum { ROW = 1, SENTENCE = 2 };

static char top[4096]; /* what it has written last */

/* Which of the two hoop-top has now. */
static int
look_at_top(void)
{
    char command[PARTY_NOTE + 512];
    int seen = 0;
    snprintf(command, sizeof(command), "'%s/bin/hoop-top' --once --secret-file '%s' %s 2>&1",
             getenv("abs_top_builddir"), p.secret_file, p.address);
    FILE *f = popen(command, "r");
    top[0] = '\0';
    for (size_t n = 0; f && fgets(top + n, (int)(sizeof(top) - n), f); n = strlen(top)) {
        seen |= strstr(top + n, " is being connected again") ? ROW : 0;
        seen |= strstr(top + n, "being made again") && strstr(top + n, "between rank ") ? SENTENCE : 0;
    }
    if (f)
        pclose(f);
    return seen;
}

/* All connections break, and nothing comes through on new ones. */
static void
test_shown(void)
{
    plot s = {.small = SMALL, .large = SMALL, .again = 1};
    int before, seen = 0;
    proxy_reset(x);
    setenv("HOOP_JOB", "shown", 1); /* hoop-top asks for it */
    party_start(&p, 3, work, &s, 300);
    party_await(&p);
    for (tap_wait w = {0};
         (before = look_at_top()) && tap_waits(&w);) /* one may just be made again, on a busy machine */
        usleep(100000);
    hold_doors(3, 1);
    proxy_drop_all(x, 1);
    for (tap_wait w = {0}; seen != (ROW | SENTENCE) && tap_waits(&w); seen |= look_at_top())
        usleep(100000);
    if (before || seen != (ROW | SENTENCE))
        diag("seen before %d, then %d, at last in: %s", before, seen, top);
    hold_doors(3, 0);
    await_round();
    for (tap_wait w = {0}; look_at_top() && tap_waits(&w);)
        usleep(100000);
    ok(before == 0 && seen == (ROW | SENTENCE),
       "hoop-top shows which connection is made again, in a row and in a sentence");
    is_int(0, look_at_top(), "... and nothing of it when it is there");
    party_mark();
    party_wait(&p);
    unsetenv("HOOP_JOB");
    expect("... and all end well");
}

/* A rank that has ended is named as if nothing were repaired. */
static void
test_death(int unserved)
{
    plot s = {.small = SMALL, .large = LARGE / 8, .dies = FIRST_BYTES + 3, .direct = 1, .unserved = unserved};
    double begun, longest = 0;
    party_start(&p, 4, work, &s, 120);
    party_await_marks(1);
    begun = party_clock();
    party_wait(&p);
    longest = party_clock() - begun;
    int told = 0;
    for (int rank = 0; rank < 4; rank++)
        told += rank != 1 && strstr(p.guest[rank].note, "rank 1") && strstr(p.guest[rank].note, "vanished");
    ok(told == 3, "%s server: all others tell which rank has ended", unserved ? "without a" : "with a");
    for (int rank = 0; rank < 4 && told < 3; rank++)
        diag("rank %d: %s", rank, p.guest[rank].note);
    ok(longest < 5 * tap_room(), "within seconds (%.2f)", longest);
}

int
main(void)
{
    plan_lazy();
    tap_limit(600);
    tap_seed(); /* all ranks have this one */
    setenv("HOOP_LINK_REPAIR", "all", 1);
    party_open(&p);
    rounds = mmap(NULL, sizeof(*rounds), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (rounds == MAP_FAILED)
        bail("no shared memory");
    x = proxy_open();
    test_every_byte(2, "1", "headers");
    test_every_byte(3, "2", "payload");
    test_every_byte(4, "1", "payload");
    test_all_at_once(4);
    test_all_at_once(7);
    test_cut_again(3);
    test_cut_again(4);
    test_leaving(3);
    test_large(2, "3");
    test_large(3, "2");
    test_unserved();
    test_split();
    test_shown();
    test_flapping();
    proxy_close(x);
    setenv("HOOP_SHM", "0", 1);
    test_death(0);
    test_death(1);
    party_close(&p);
    return tap_failures() != 0;
}
