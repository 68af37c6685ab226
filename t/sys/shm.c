/* SPDX-License-Identifier: MIT */
/*
 * shm: which ranks of one host share memory, and that all is right whether they do or not: settings, hosts that differ, limits
 * of a process, ranks that sleep at once. And what a rank sees whose neighbour spoils the memory in the middle of operations.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { RANKS = 3, LIMIT = 120, ODD = 1, MOST = 300000, SPOILT_MS = 20 };

static party p;

/* --- who shares --- */

/* Every size that another algorithm is for, in place; each element of each result is compared. */
static int
is_right(hoop_comm *comm)
{
    static const size_t counts[] = {0, 1, 7, 1000, 16384, 60000, MOST};
    static int32_t x[MOST];
    int rank = hoop_comm_rank(comm), size = hoop_comm_size(comm);
    for (size_t k = 0; k < sizeof(counts) / sizeof(*counts); k++) {
        for (size_t i = 0; i < counts[k]; i++)
            x[i] = (int32_t)(i % 1000) * (rank + 1);
        if (hoop_allreduce(x, x, counts[k], HOOP_INT32, HOOP_SUM, comm) != HOOP_SUCCESS)
            return 0;
        for (size_t i = 0; i < counts[k]; i++)
            if (x[i] != (int32_t)(i % 1000) * size * (size + 1) / 2)
                return 0;
    }
    return 1;
}

/* A message larger than the memory, each way round. */
static int
messages_are_right(hoop_comm *comm)
{
    static int32_t out[MOST], in[MOST];
    int rank = hoop_comm_rank(comm), size = hoop_comm_size(comm), next = (rank + 1) % size,
        before = (rank + size - 1) % size;
    hoop_work *work = NULL;
    for (int i = 0; i < MOST; i++)
        out[i] = i ^ rank;
    if (hoop_irecv(in, MOST, HOOP_INT32, before, 0, comm, &work) != HOOP_SUCCESS ||
        hoop_send(out, MOST, HOOP_INT32, next, 0, comm) != HOOP_SUCCESS || hoop_work_wait(work, -1) != HOOP_SUCCESS)
        return 0;
    for (int i = 0; i < MOST; i++)
        if (in[i] != (i ^ before))
            return 0;
    return 1;
}

static int
shares(hoop_comm *comm)
{
    hoop_stats s = {.size = sizeof(s)};
    return hoop_comm_stats(comm, &s) == HOOP_SUCCESS && s.shares_memory;
}

typedef struct plot {
    void (*odd)(void); /* what rank ODD does first; NULL: nothing */
    int shared[RANKS]; /* whether a rank shares memory with the next one; ranks of one host are neighbours */
} plot;

static int
compute(int rank, int size, void *arg)
{
    const plot *s = arg;
    if (s->odd && rank == ODD)
        s->odd();
    hoop_comm *comm = party_join(1), *part = NULL;
    int good = is_right(comm) && messages_are_right(comm);
    party_nap(1.1); /* the figures are renewed once a second */
    hoop_barrier(comm);
    int shared = shares(comm);
    good = good && hoop_comm_split(comm, 0, size - rank, &part) == HOOP_SUCCESS && is_right(part);
    party_note("right: %d, shares: %d", good, shared);
    hoop_comm_destroy(part);
    hoop_comm_destroy(comm);
    return !good || shared != s->shared[rank];
}

static void
move_away(void)
{
    setenv("HOOP_HOSTID", "elsewhere", 1);
}

/* No file may grow, so this rank can offer no memory; it opens what the others offer. */
static void
limit_files(void)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_FSIZE, &none);
}

static void
who_shares(void)
{
    static const plot plain = {NULL, {1, 1, 1}}, off = {NULL, {0, 0, 0}}, away = {move_away, {1, 0, 0}},
                      poor = {limit_files, {1, 0, 1}};
    party_expect(&p, RANKS, compute, (void *)(uintptr_t)&plain, LIMIT, "ranks of one host share memory");
    setenv("HOOP_SPIN", "0", 1);
    party_expect(&p, RANKS, compute, (void *)(uintptr_t)&plain, LIMIT, "also ranks that sleep at once");
    unsetenv("HOOP_SPIN");
    party_expect(&p, RANKS, compute, (void *)(uintptr_t)&away, LIMIT, "one with another host id does not");
    party_expect(&p, RANKS, compute, (void *)(uintptr_t)&poor, LIMIT, "one whose files may not grow offers none");
    setenv("HOOP_SHM", "0", 1);
    party_expect(&p, RANKS, compute, (void *)(uintptr_t)&off, LIMIT, "none share that are set not to");
    unsetenv("HOOP_SHM");
}

/* --- a neighbour that spoils it --- */

static atomic_int over;

/* Writes to the counts of every memory that this process shares, as they lie in its first page. */
static void
spoil_all(void)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    for (unsigned long from; maps && fgets(line, sizeof(line), maps);)
        if (strstr(line, "memfd:hoop") && sscanf(line, "%lx-", &from) == 1) {
            _Atomic uint64_t *words = (_Atomic uint64_t *)from; /* NOLINT: an address that the kernel has told */
            size_t k = 8 + tap_pick(32);
            atomic_fetch_add(&words[k], tap_pick(2) ? tap_random() : tap_pick(100));
        }
    if (maps)
        fclose(maps);
}

static void *
spoil(void *arg)
{
    while (!atomic_load(&over)) {
        spoil_all();
        usleep(SPOILT_MS * 1000);
    }
    return NULL;
}

/*
 * Ends by an error long before the time limit, and rank ODD is an end of what is named: it reads what it spoils, and may see it
 * first.
 */
static int
suffer(int rank, int size, void *arg)
{
    static int32_t x[MOST];
    hoop_error e = {.size = sizeof(e)};
    hoop_comm *comm = party_join(2);
    hoop_result result = HOOP_SUCCESS;
    pthread_t thread;
    if (rank == ODD)
        pthread_create(&thread, NULL, spoil, NULL);
    for (double begin = party_clock(); result == HOOP_SUCCESS && party_clock() < begin + 30;)
        result = hoop_allreduce(x, x, tap_pick(2) ? MOST : 100, HOOP_INT32, HOOP_SUM, comm);
    atomic_store(&over, 1);
    if (rank == ODD)
        pthread_join(thread, NULL);
    hoop_comm_error(comm, &e);
    party_note("%d: %s", (int)result, e.text);
    hoop_comm_destroy(comm);
    return result == HOOP_SUCCESS || result == HOOP_ERR_TIMEOUT || (e.rank != ODD && e.reporter != ODD);
}

int
main(void)
{
    plan_lazy();
    tap_limit(400);
    tap_seed();
    setenv("HOOP_OP_TIMEOUT_MS", "40000", 1);
    unsetenv("HOOP_SHM"); /* as make check-tcp sets it */
    party_open(&p);
    who_shares();
    for (int round = 0; round < 3; round++)
        party_expect(&p, RANKS, suffer, NULL, LIMIT, "a rank that spoils the memory ends the job, and nothing hangs");
    party_close(&p);
    return 0;
}
