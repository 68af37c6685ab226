/* SPDX-License-Identifier: MIT */
/*
 * Many communicators in one process, until its limit of descriptors or the server's limit of connections ends that: then
 * all ranks hear of the limit at once, and which one it is; also those that have room for more.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { RANKS = 3, GROUPS = 250, TOO_MANY = 300, LIMIT = 160, EVERY = -1 };
enum { SERVER_FREE = 8 }; /* enough for a communicator to reach the server, not for that to let all ranks in */

static party p;

typedef struct plot {
    char address[64]; /* where rank 0 serves */
    int poor;         /* the rank with few descriptors; EVERY: all ranks */
    int splits;       /* the communicators are made by hoop_comm_split, not by hoop_comm_create */
} plot;

/* Opens all that may be opened, but `free`. */
static void
leave_free(int free_fds)
{
    int fds[TOO_MANY], n = 0;
    while (n < TOO_MANY && (fds[n] = dup(0)) >= 0)
        n++;
    while (n > 0 && free_fds-- > 0)
        close(fds[--n]);
}

static void
limit_descriptors(rlim_t soft, rlim_t hard)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_max = hard < limit.rlim_max ? hard : limit.rlim_max;
    limit.rlim_cur = soft;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int
sums(hoop_comm *comm)
{
    int32_t one = 1, sum = 0;
    return hoop_allreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, comm) == HOOP_SUCCESS && sum == RANKS;
}

/* The usual soft limit is raised. */
static int
usual(int rank, int size, void *arg)
{
    static hoop_comm *groups[GROUPS];
    limit_descriptors(1024, RLIM_INFINITY);
    hoop_comm *comm = party_join(1);
    int made = 0, bad = 0;
    while (made < GROUPS && hoop_comm_split(comm, 0, 0, &groups[made]) == HOOP_SUCCESS)
        made++;
    for (int i = 0; i < made; i++)
        bad += !sums(groups[i]);
    party_note("%d communicators, %d with a wrong sum", made, bad);
    for (int i = 0; i < made; i++)
        hoop_comm_destroy(groups[i]);
    return hoop_comm_destroy(comm) != HOOP_SUCCESS || made < GROUPS || bad;
}

static hoop_result
make(hoop_comm *world, int splits, int turn, hoop_comm **out)
{
    char job[32];
    if (splits)
        return hoop_comm_split(world, 0, 0, out);
    snprintf(job, sizeof(job), "turn-%d", turn);
    hoop_config *config = hoop_config_new();
    hoop_config_set(config, "job", job);
    hoop_result result = hoop_comm_create(out, config);
    hoop_config_free(config);
    return result;
}

/* Makes communicators until one fails, which must not take long, and notes the error. */
static void
exhaust(hoop_comm *world, int splits)
{
    static hoop_comm *groups[TOO_MANY];
    hoop_error e = {.size = sizeof(e)};
    hoop_result result = HOOP_SUCCESS;
    double begin = 0;
    int made = 0;
    for (; made < TOO_MANY && result == HOOP_SUCCESS; made += result == HOOP_SUCCESS) {
        begin = party_clock();
        result = make(world, splits, made, &groups[made]);
    }
    double took = party_clock() - begin;
    hoop_comm_error(splits ? world : NULL, &e);
    party_note("%d %.1f s, %d communicators: %s", took < 5 + tap_room() ? (int)result : 0, took, made, e.text);
    if (made > 1 && (!sums(groups[made - 1]) || !sums(world)))
        party_note("%d those that are there still work", HOOP_SUCCESS);
    for (int i = 0; i < made; i++)
        hoop_comm_destroy(groups[i]);
}

static int
poor(int rank, int size, void *arg)
{
    const plot *s = arg;
    if (s->poor == rank || s->poor == EVERY)
        limit_descriptors(LIMIT, LIMIT);
    hoop_comm *comm = party_join(1);
    exhaust(comm, s->splits);
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* Every rank's communicator failed soon, and its sentence says all this. */
static int
all_say(const char *const *words)
{
    int good = 1;
    for (int rank = 0; rank < RANKS; rank++) {
        const char *note = p.guest[rank].note;
        good &= p.guest[rank].status == 0 && atoi(note) != HOOP_SUCCESS;
        for (int i = 0; words[i]; i++)
            good &= strstr(note, words[i]) != NULL;
    }
    for (int rank = 0; rank < RANKS && !good; rank++)
        diag("rank %d, status %d: %s", rank, p.guest[rank].status, p.guest[rank].note);
    return good;
}

static void
test_ranks(void)
{
    static const char *const words[] = {"the limit (RLIMIT_NOFILE) is 160", "takes 10, and 3 more",
                                        "raise \"ulimit -n\"", NULL};
    for (int splits = 0; splits < 2; splits++)
        for (int rank = EVERY; rank <= 1; rank += 2) {
            plot s = {.poor = rank, .splits = splits};
            party_run(&p, RANKS, poor, &s, 90);
            ok(all_say(words), "%s with %d descriptors, %s: all hear of the limit at once: %s",
               rank == EVERY ? "all ranks" : "one rank", LIMIT, splits ? "hoop_comm_split" : "hoop_comm_create",
               p.guest[0].note);
        }
}

/* --- the server --- */

/* A server of rank 0's process, whose descriptors are its own. */
static int
host(int rank, int size, void *arg)
{
    const plot *s = arg;
    hoop_server *server = NULL;
    hoop_comm *comm;
    if (rank == 0) {
        limit_descriptors(LIMIT, LIMIT);
        hoop_config *config = hoop_config_new();
        hoop_config_set(config, "rendezvous", s->address);
        hoop_result result = hoop_server_start(&server, config);
        hoop_config_free(config);
        if (result != HOOP_SUCCESS)
            return 1;
    }
    setenv("HOOP_RENDEZVOUS", s->address, 1);
    comm = party_join(1);
    if (rank == 0)
        leave_free(SERVER_FREE);
    exhaust(comm, s->splits);
    if (rank != 0)
        hoop_comm_destroy(comm);
    return 0;
}

/*
 * Rank 0 holds all descriptors but a few, and its process ends as soon as its call fails. Who lacks one first, the server or
 * the rank, is chance, and so is which of them is named.
 */
static void
test_servers(void)
{
    static const char *const words[] = {"(RLIMIT_NOFILE) is 160", "raise \"ulimit -n\"", NULL};
    for (int splits = 0; splits < 2; splits++) {
        plot s = {.splits = splits};
        snprintf(s.address, sizeof(s.address), "127.0.0.1:%d", party_ports(1));
        party_run(&p, RANKS, host, &s, 90);
        ok(all_say(words), "rank 0, with the server, has no descriptor left, %s: all hear it: %s",
           splits ? "hoop_comm_split" : "hoop_comm_create", p.guest[1].note);
    }
}

/* --- the server's quota --- */

static int
greedy(int rank, int size, void *arg)
{
    hoop_comm *comm = party_join(1);
    exhaust(comm, 1);
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

static void
test_quota(void)
{
    static const char *const words[] = {" 255 communicators:", "in 256 communicators each", "destroy those", NULL};
    party_run(&p, RANKS, greedy, NULL, 90);
    ok(all_say(words), "the 257th communicator of all ranks: all hear of the limit at once: %s", p.guest[1].note);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    setenv("HOOP_BOOTSTRAP_TIMEOUT_MS", "60000", 1);
    party_open(&p);
    party_expect(&p, RANKS, usual, NULL, 90, "250 communicators under the usual soft limit of 1024");
    test_ranks();
    test_servers();
    test_quota();
    party_close(&p);
    return 0;
}
