/* SPDX-License-Identifier: MIT */
/*
 * Memory runs out at the k-th allocation, for every k: while a ring is joined, used, split and left, and while its ranks
 * send each other messages. The rank that
 * it happens to gets HOOP_ERR_NO_MEMORY with a sentence and may try again; the others either notice nothing or are told
 * who failed; nobody crashes, hangs, leaks or computes a wrong sum. Without HOOP_TEST_FULL three ranks try a sample of
 * the k; one rank alone always tries all.
 */
#include "hoop.h"
#include "net/auth.h"
#include "t/tap/tap.h"
#include "t/tools/descriptors.h"
#include "t/tools/ledger.h"
#include "t/tools/party.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 3, TENSORS = 5, BIG = 200000 };

static party p;

static int
sampling(void)
{
    return !getenv("HOOP_TEST_FULL");
}

/* What the manual allows a call to say for want of memory. */
static int
is_want(hoop_result result, const hoop_error *e)
{
    return result == e->code && e->text[0] &&
           (result == HOOP_ERR_NO_MEMORY || (result == HOOP_ERR_SYSTEM && strstr(e->text, "memory")));
}

/* --- one rank and the server: every allocation of create and destroy --- */

/* 0 when the k-th allocation was not reached any more, else 1; *bad counts breaches. The process's first time libcrypto
 * and libevent make what they keep. */
static int
join_alone(unsigned long k, int on, int first, int *bad)
{
    hoop_error e = {.size = sizeof(e)};
    hoop_comm *comm = NULL;
    long alive = ledger_alive();
    int fds = count_descriptors(0);
    ledger_open(k, on);
    hoop_result result = hoop_comm_create(&comm, NULL);
    if (result == HOOP_SUCCESS)
        result = hoop_comm_destroy(comm);
    ledger_sums sums = ledger_close();
    hoop_comm_error(NULL, &e);
    if (result != HOOP_SUCCESS && (k == 0 || !is_want(result, &e))) {
        party_note("allocation %lu fails (%s): result %d: %s", k, ledger_first(), (int)result, e.text);
        ++*bad;
    }
    if (count_descriptors(0) != fds || (!first && ledger_alive() != alive)) {
        party_note("allocation %lu (%s) fails: %d descriptors and %ld pieces of memory are left over", k,
                   ledger_first(), count_descriptors(0) - fds, ledger_alive() - alive);
        ++*bad;
    }
    return sums.failed;
}

static int
alone(int rank, int size, void *arg)
{
    int on = *(int *)arg, bad = 0;
    unsigned long k = 1;
    join_alone(0, 0, 1, &bad);
    for (; join_alone(k, on, 0, &bad) && !bad; k++)
        ;
    if (!bad)
        party_note("%lu", k);
    return bad || k < 20;
}

/* The first use of libcrypto in a process. */
static int
first_time(int rank, int size, void *arg)
{
    int bad = 0;
    join_alone(*(unsigned long *)arg, 0, 1, &bad);
    join_alone(0, 0, 1, &bad); /* what failed once for want of memory works when there is some */
    _exit(bad); /* without a search for leaks: libcrypto itself loses a few bytes when its own start fails */
}

/* --- three ranks --- */

typedef struct plot {
    int victim;
    unsigned long k;
} plot;

typedef struct player {
    const plot *plot;
    hoop_comm *comm, *part;
    hoop_comm *on;        /* the one that is being used */
    int rank, size, mine; /* mine: memory fails here */
    int over;             /* nothing more is to be tried */
    int bad;
} player;

static void
breach(player *r, const char *what, hoop_result result, const hoop_error *e)
{
    party_note("allocation %lu of rank %d, %s: result %d, rank %d: %s", r->plot->k, r->plot->victim, what, (int)result,
               e ? e->rank : -1, e ? e->text : "wrong sum");
    r->bad = r->over = 1;
}

/* How a call went: 1 when it is to be made again, because it failed and the communicator (if any) has not. */
static int
again(player *r, const char *what, hoop_result result)
{
    hoop_error e = {.size = sizeof(e)};
    if (result == HOOP_SUCCESS || r->over)
        return 0;
    hoop_comm_error(r->on, &e);
    /* before a rank has the roster it can only go away */
    int told = result == HOOP_ERR_ABORTED || (result == HOOP_ERR_PEER_LOST && e.phase == HOOP_PHASE_BRINGUP);
    if (r->mine ? !is_want(result, &e) : (!told || e.rank != r->plot->victim || !e.text[0]))
        breach(r, what, result, &e);
    else if (r->on && hoop_comm_progress(r->on) != HOOP_SUCCESS)
        r->over = 1; /* it has failed, as it may: on all ranks, so that there is no one left to try with */
    return !r->over;
}

static void
create(player *r)
{
    while (again(r, "create", hoop_comm_create(&r->comm, NULL)))
        ;
    r->on = r->comm;
}

static void
sum(player *r, const char *what, size_t count)
{
    static float x[BIG];
    int n = hoop_comm_size(r->on), wrong = 0;
    do {
        for (size_t i = 0; i < count; i++)
            x[i] = (float)(i % 100 + 1);
    } while (again(r, what, hoop_allreduce(x, x, count, HOOP_FLOAT32, HOOP_SUM, r->on)));
    for (size_t i = 0; i < count && !r->over && !wrong; i++)
        wrong = x[i] != (float)n * (float)(i % 100 + 1);
    if (wrong)
        breach(r, what, HOOP_SUCCESS, NULL);
}

static hoop_result
group_once(player *r, int32_t *x)
{
    hoop_result result = hoop_group_start(r->comm);
    for (int i = 0; i < TENSORS && result == HOOP_SUCCESS; i++) {
        x[i] = 1 + i;
        hoop_allreduce(x + i, x + i, 1, HOOP_INT32, HOOP_SUM, r->comm); /* what fails here spoils the group */
    }
    return result == HOOP_SUCCESS ? hoop_group_end(r->comm) : result;
}

static void
group(player *r)
{
    int32_t x[TENSORS];
    while (again(r, "group", group_once(r, x)))
        ;
    for (int i = 0; i < TENSORS && !r->over; i++)
        if (x[i] != r->size * (1 + i))
            breach(r, "group", HOOP_SUCCESS, NULL);
}

static void
uneven(player *r)
{
    static const size_t counts[RANKS] = {1, 0, 2};
    int32_t mine[2] = {r->rank, r->rank}, all[RANKS] = {-1, -1, -1};
    while (again(r, "uneven", hoop_allgatherv(mine, all, counts[r->rank], counts, NULL, HOOP_INT32, r->comm)))
        ;
    if (!r->over && (all[0] != 0 || all[1] != 2 || all[2] != 2))
        breach(r, "uneven", HOOP_SUCCESS, NULL);
}

static void
flock(player *r)
{
    int64_t x[TENSORS];
    hoop_work *work[TENSORS] = {0};
    for (int i = 0; i < TENSORS; i++) {
        x[i] = 1 + i;
        while (again(r, "start", hoop_iallreduce(x + i, x + i, 1, HOOP_INT64, HOOP_SUM, r->comm, &work[i])))
            ;
    }
    if (again(r, "wait", hoop_wait_all(work, TENSORS)))
        breach(r, "wait", HOOP_ERR_INTERNAL, NULL);
    for (int i = 0; i < TENSORS && !r->over; i++)
        if (x[i] != r->size * (1 + i))
            breach(r, "wait", HOOP_SUCCESS, NULL);
}

/* --- messages --- */

static int32_t
element(int from, size_t i)
{
    return (int32_t)((size_t)from * 7919 + i);
}

static void
check_elements(player *r, const char *what, const int32_t *x, int from, size_t count)
{
    for (size_t i = 0; i < count && !r->over; i++)
        if (x[i] != element(from, i))
            breach(r, what, HOOP_SUCCESS, NULL);
}

static hoop_result
exchange_once(player *r, const int32_t *out, int32_t *in, size_t count)
{
    hoop_result result = hoop_group_start(r->comm);
    if (result != HOOP_SUCCESS)
        return result;
    hoop_send(out, count, HOOP_INT32, (r->rank + 1) % r->size, 1, r->comm); /* what fails here spoils the group */
    hoop_recv(in, count, HOOP_INT32, (r->rank + r->size - 1) % r->size, 1, r->comm);
    return hoop_group_end(r->comm);
}

/* Short and long ones, to the next rank. */
static void
exchange(player *r)
{
    static const size_t counts[] = {3, BIG};
    static int32_t out[BIG], in[BIG];
    for (int k = 0; k < 2 && !r->over; k++) {
        for (size_t i = 0; i < counts[k]; i++) {
            out[i] = element(r->rank, i);
            in[i] = -1;
        }
        while (again(r, "exchange", exchange_once(r, out, in, counts[k])))
            ;
        check_elements(r, "exchange", in, (r->rank + r->size - 1) % r->size, counts[k]);
    }
}

/* Messages to every rank that come before their receives; these are in the opposite order. */
static void
come_early(player *r)
{
    static int32_t out[BIG], in[RANKS][BIG];
    hoop_work *work[2 * RANKS] = {0};
    for (size_t i = 0; i < BIG; i++)
        out[i] = element(r->rank, i);
    memset(in, -1, sizeof(in));
    for (int to = 0; to < r->size; to++)
        while (again(r, "isend", hoop_isend(out, to ? BIG : 100, HOOP_INT32, to, 2, r->comm, &work[to])))
            ;
    while (again(r, "barrier", hoop_barrier(r->comm)))
        ;
    for (int from = r->size - 1; from >= 0; from--)
        while (again(r, "irecv",
                     hoop_irecv(in[from], r->rank ? BIG : 100, HOOP_INT32, from, 2, r->comm, &work[r->size + from])))
            ;
    if (again(r, "wait for messages", hoop_wait_all(work, 2 * RANKS)))
        breach(r, "wait for messages", HOOP_ERR_INTERNAL, NULL);
    for (int from = 0; from < r->size; from++)
        check_elements(r, "early message", in[from], from, r->rank ? BIG : 100);
}

static void
alltoallv(player *r)
{
    static const size_t counts[RANKS] = {2, 2, 2};
    int32_t out[2 * RANKS], in[2 * RANKS];
    for (int i = 0; i < 2 * RANKS; i++) {
        out[i] = element(r->rank, (size_t)i);
        in[i] = -1;
    }
    while (again(r, "alltoallv", hoop_alltoallv(out, in, counts, NULL, counts, NULL, HOOP_INT32, r->comm)))
        ;
    for (int from = 0; from < RANKS && !r->over; from++)
        for (int i = 0; i < 2; i++)
            if (!r->over && in[2 * from + i] != element(from, (size_t)(2 * r->rank + i)))
                breach(r, "alltoallv", HOOP_SUCCESS, NULL);
}

/* Only allocations of messages fail. */
static int
play_messages(int rank, int size, void *arg)
{
    player r = {.plot = arg, .rank = rank, .size = size};
    r.comm = r.on = party_join(1);
    r.mine = rank == r.plot->victim;
    if (r.mine)
        ledger_open(r.plot->k, 0);
    come_early(&r);
    if (!r.over)
        exchange(&r);
    if (!r.over)
        alltoallv(&r);
    ledger_sums sums = ledger_close();
    hoop_result result = hoop_comm_destroy(r.comm);
    if (!r.over && result != HOOP_SUCCESS)
        breach(&r, "destroy", result, NULL);
    if (!r.bad)
        party_note("%lu %d", sums.taken, r.over);
    return r.bad;
}

/* --- everything else --- */

static void
split(player *r)
{
    while (again(r, "split", hoop_comm_split(r->comm, 0, r->rank, &r->part)))
        ;
    r->on = r->part;
}

static void
destroy(player *r)
{
    hoop_result parted = hoop_comm_destroy(r->part), result = hoop_comm_destroy(r->comm);
    if (!r->over && (parted != HOOP_SUCCESS || result != HOOP_SUCCESS))
        breach(r, "destroy", parted ? parted : result, NULL);
}

static int
play(int rank, int size, void *arg)
{
    player r = {.plot = arg, .rank = rank, .size = size};
    ledger_sums sums = {0};
    int fds = count_descriptors(0);
    r.mine = rank == r.plot->victim;
    if (r.mine)
        ledger_open(r.plot->k, 0);
    create(&r);
    if (!r.over)
        sum(&r, "small", 3);
    if (!r.over)
        group(&r);
    if (!r.over)
        uneven(&r);
    if (!r.over)
        flock(&r);
    if (!r.over)
        sum(&r, "big", BIG);
    if (!r.over)
        split(&r);
    if (!r.over)
        sum(&r, "in the split", 1000);
    destroy(&r);
    sums = ledger_close();
    if (!r.bad && count_descriptors(0) != fds)
        breach(&r, "descriptors left", (hoop_result)(count_descriptors(0) - fds), NULL);
    if (!r.bad)
        party_note("%lu %d", sums.taken, r.over);
    return r.bad;
}

/* The first message of a rank, alone: no operation of the belt waits beside it. */
static int
first_word(int rank, int size, void *arg)
{
    unsigned long k = *(unsigned long *)arg;
    int32_t word = 7;
    hoop_error e = {.size = sizeof(e)};
    hoop_comm *comm = party_join(1);
    if (rank == 0)
        ledger_open(k, 0);
    hoop_result result =
        rank == 0 ? hoop_send(&word, 1, HOOP_INT32, 1, 1, comm) : hoop_recv(&word, 1, HOOP_INT32, 0, 1, comm);
    if (rank == 0)
        ledger_close();
    hoop_comm_error(comm, &e);
    hoop_comm_destroy(comm);
    party_note("allocation %lu: result %d: %s", k, (int)result, e.text);
    return result != HOOP_SUCCESS && !(rank == 0 ? is_want(result, &e) : e.rank == 0);
}

static void
first_words(void)
{
    enum { MOST = 8 };
    int bad = 0;
    for (unsigned long k = 1; k <= MOST; k++)
        if (party_run(&p, 2, first_word, &k, 60) != 0 && ++bad)
            diag("%s; %s", p.guest[0].note, p.guest[1].note);
    is_int(0, bad, "a first message alone: it arrives, or memory is lacking");
}

/* Runs it for many k, spread over all that there are; each has to end soon, told or untold. */
static void
together(party_fn *fn, const char *what)
{
    plot s = {.victim = 1};
    unsigned long all = 0, step, tried = 0, ended = 0;
    uint8_t mac[HP_MAC] = {0};
    int bad = 0, slow = 0;
    setenv("HOOP_BOOTSTRAP_TIMEOUT_MS", "60000", 1);
    setenv("HOOP_OP_TIMEOUT_MS", "60000", 1);
    /* libcrypto's own beginnings are first_time's matter: the ranks inherit them */
    hp_mac(mac, mac, mac, 1);
    hp_job_id(mac, "warm", NULL);
    hp_hkdf(mac, mac, mac, 1, mac, 1);
    bad += party_run(&p, RANKS, fn, &s, 90);
    sscanf(p.guest[1].note, "%lu", &all);
    step = getenv("HOOP_TEST_FULL") ? 1 : 1 + all / (sampling() ? 30 : 150);
    for (s.k = 1 + (unsigned long)(tap_random() % step); s.k <= all && bad < 5; s.k += step, tried++) {
        double begin = party_clock();
        s.victim = (int)(tap_random() % RANKS);
        bad += party_run(&p, RANKS, fn, &s, 90);
        slow += party_clock() - begin > 3 + tap_room();
        if (party_clock() - begin > 3 + tap_room())
            diag("allocation %lu of rank %d: it took %.1f s", s.k, s.victim, party_clock() - begin);
        ended += strstr(p.guest[s.victim].note, " 1") != NULL;
    }
    unsetenv("HOOP_BOOTSTRAP_TIMEOUT_MS");
    unsetenv("HOOP_OP_TIMEOUT_MS");
    diag("%s: %lu of %lu allocations failed, one at a time; %lu ended the communicator", what, tried, all, ended);
    is_int(0, bad, "three ranks, %s: one lacks memory: an error or no effect, right bits, no descriptor left", what);
    is_int(0, slow, "three ranks, %s: no rank waits for a time-out", what);
}

int
main(void)
{
    int on = 0;
    tap_limit(sampling() ? 120 : 400);
    plan_lazy();
    party_open(&p);
    is_int(0, party_run(&p, 1, alone, &on, 60), "create and destroy, every allocation once: NO_MEMORY, no leak");
    diag("%s allocations", p.guest[0].note);
    on = 1;
    is_int(0, party_run(&p, 1, alone, &on, 60), "create and destroy, every allocation from the k-th on");
    for (unsigned long k = 1, bad = 0; k <= 1024; k *= 2) {
        bad += (unsigned long)party_run(&p, 1, first_time, &k, 90);
        if (k == 1024)
            is_int(0, (intmax_t)bad, "the first use of libcrypto fails: the next does not");
    }
    first_words();
    together(play, "collectives");
    together(play_messages, "messages");
    party_close(&p);
    return 0;
}
