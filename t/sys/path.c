/* SPDX-License-Identifier: MIT */
/*
 * What is chosen by where the ranks are: slices, window and spread_bytes that nobody has set depend on whether all ranks
 * of a communicator are on one host. All of them must come to the same choice, in splits too, or they would call each
 * other's frames wrong; the INFO line says what it was. How long a rank looks before it sleeps is chosen by how many may
 * run on its processors.
 */
#include "hoop.h"
#include "lib/spin.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { RANKS = 4, COUNT = 300000, LINES = 8 };
enum { HOST_DEPTH = 2, NET_DEPTH = 4, HOST_SPREAD = 256 << 10, PAIR_SPREAD = 384 << 10, NET_SPREAD = 32 << 10 };

static party p;

typedef struct choice {
    int ranks;
    unsigned slices, window, spread;
} choice;

static void
log_of(int rank, char path[512])
{
    snprintf(path, 512, "%s/rank%d", tap_tmpdir(), rank);
}

static int
is_right(hoop_comm *comm, size_t count)
{
    static int32_t in[COUNT], out[COUNT];
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        in[i] = (int32_t)i;
    if (hoop_allreduce(in, out, count, HOOP_INT32, HOOP_SUM, comm) != HOOP_SUCCESS)
        return 0;
    for (size_t i = 0; i < count; i++)
        wrong += out[i] != (int32_t)i * hoop_comm_size(comm);
    return wrong == 0;
}

/* All shapes that the choices decide about: spread on one host only, spread on both, the ring. */
static int
works(hoop_comm *comm)
{
    return is_right(comm, 8000) && is_right(comm, 100) && is_right(comm, COUNT);
}

/* Connections of this process that have carried slices, and have another congestion control than this one. */
static int
deviating(const char *wanted)
{
    int n = 0;
    for (int fd = 3; fd < 256; fd++) {
        struct tcp_info info = {0};
        char name[16] = "";
        socklen_t size = sizeof(info), length = sizeof(name);
        if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_bytes_acked > 100000)
            n += getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) == 0 && strcmp(name, wanted) != 0;
    }
    return n;
}

/* A ring of four, of which `hosts` names two by two; then its hosts, and then one rank of each host. */
static int
play(int rank, int size, void *arg)
{
    const char *const *hosts = arg;
    hoop_comm *comm, *host, *across;
    char path[512];
    log_of(rank, path);
    if (!freopen(path, "w", stderr))
        return 1;
    setenv("HOOP_HOSTID", hosts[rank / 2], 1);
    setenv("HOOP_TCP_CONGESTION", "reno", 1); /* every kernel has it, and allows it */
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS || !works(comm))
        return 2;
    if (deviating("reno"))
        return 5;
    if (hoop_comm_split(comm, rank / 2, 0, &host) != HOOP_SUCCESS || !works(host))
        return 3;
    if (hoop_comm_split(comm, rank % 2, 0, &across) != HOOP_SUCCESS || !works(across))
        return 4;
    party_note("%d %d %d", hoop_comm_local_size(comm), hoop_comm_local_size(host), hoop_comm_local_size(across));
    hoop_comm_destroy(across);
    hoop_comm_destroy(host);
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* What the INFO lines of a rank say of its rings, in order. */
static int
choices_of(int rank, choice *c)
{
    char path[512], line[1024];
    int n = 0;
    log_of(rank, path);
    FILE *file = fopen(path, "r");
    while (file && n < LINES && fgets(line, sizeof(line), file)) {
        const char *ring = strstr(line, "ring of "), *depth = strstr(line, "; slices ");
        if (ring && depth && sscanf(ring, "ring of %d", &c[n].ranks) == 1)
            n +=
                sscanf(depth, "; slices %u, window %u, spread_bytes %u", &c[n].slices, &c[n].window, &c[n].spread) == 3;
    }
    if (file)
        fclose(file);
    return n;
}

static int
is(const choice *c, int ranks, unsigned slices, unsigned window, unsigned spread)
{
    if (c->ranks == ranks && c->slices == slices && c->window == window && c->spread == spread)
        return 1;
    diag("a ring of %d chose slices %u, window %u, spread_bytes %u; wanted %u, %u, %u for %d", c->ranks, c->slices,
         c->window, c->spread, slices, window, spread, ranks);
    return 0;
}

static unsigned
spread_of(int ranks, int one_host)
{
    if (!one_host)
        return NET_SPREAD;
    return ranks == 2 ? PAIR_SPREAD : HOST_SPREAD;
}

/* world, host, across: as on one host (1) or not (0). */
static void
try(const char *const *hosts, const int one_host[3], unsigned slices, const char *what)
{
    int good = party_run(&p, RANKS, play, (void *)(uintptr_t)hosts, 60) == 0;
    for (int rank = 0; rank < RANKS; rank++) {
        choice c[LINES] = {{0}};
        int n = choices_of(rank, c);
        good &= n == 3;
        for (int i = 0; i < n && i < 3; i++) {
            unsigned depth = slices ? slices : one_host[i] ? HOST_DEPTH : NET_DEPTH;
            int ranks = i ? 2 : RANKS;
            good &= is(&c[i], ranks, depth, one_host[i] ? depth + 1 : 2 * depth, spread_of(ranks, one_host[i]));
        }
    }
    ok(good, "%s", what);
}

/* --- how long to look before sleeping: by those who may run on the same processors --- */

/* Four ranks on the first of our processors, or on the first two in turns. */
static int
colocated(int rank, int size, void *arg)
{
    const int *processors = arg;
    hoop_comm *comm;
    cpu_set_t one;
    char path[512];
    log_of(rank, path);
    if (!freopen(path, "w", stderr))
        return 1;
    CPU_ZERO(&one);
    CPU_SET((size_t)processors[rank % 2], &one);
    if (sched_setaffinity(0, sizeof(one), &one) < 0)
        return 2;
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS || !is_right(comm, 100))
        return 3;
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

static int
looks_of(int rank)
{
    char path[512], line[1024];
    int looks = -1;
    log_of(rank, path);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof(line), file)) {
        const char *at = strstr(line, ", spin ");
        if (at)
            looks = atoi(at + 7);
    }
    if (file)
        fclose(file);
    return looks;
}

static void
try_crowd(int a, int b, const char *what)
{
    int processors[] = {a, b};
    int good = party_run(&p, RANKS, colocated, processors, 60) == 0;
    int64_t wanted = hp_spin_most(-1, a == b ? RANKS : RANKS / 2, 1);
    for (int rank = 0; rank < RANKS; rank++) {
        good &= looks_of(rank) == wanted;
        if (looks_of(rank) != wanted)
            diag("rank %d looks %d times, wanted %lld", rank, looks_of(rank), (long long)wanted);
    }
    ok(good, "%s", what);
}

static void
test_crowds(void)
{
    cpu_set_t mine;
    int processor[2] = {-1, -1}, found = 0;
    sched_getaffinity(0, sizeof(mine), &mine);
    for (int i = 0; i < CPU_SETSIZE && found < 2; i++)
        if (CPU_ISSET((size_t)i, &mine))
            processor[found++] = i;
    try_crowd(processor[0], processor[0], "four ranks on one processor look few times");
    if (found < 2)
        skip(1, "one processor, and this takes two");
    else
        try_crowd(processor[0], processor[1], "two and two on processors of their own look often");
}

int
main(void)
{
    static const char *const one[] = {"a", "a"}, *const two[] = {"a", "b"};
    static const int all_here[] = {1, 1, 1}, apart[] = {0, 1, 0};
    tap_limit(240);
    plan(5);
    setenv("HOOP_SHM", "0", 1); /* TCP connections are looked at */
    setenv("HOOP_DEBUG", "info", 1);
    party_open(&p);
    test_crowds();
    try(one, all_here, 0, "one host: every ring has the depth and the spread of one host");
    try(two, apart, 0, "two hosts: so have the splits within a host, and no other");
    setenv("HOOP_SLICES", "3", 1);
    try(two, apart, 3, "slices that are set hold everywhere, the rest is chosen as before");
    party_close(&p);
    return 0;
}
