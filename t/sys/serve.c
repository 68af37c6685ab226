/* SPDX-License-Identifier: MIT */
/*
 * serve: a program that arranges its own meeting: its server, its served_secret, and groups of ranks that are jobs of that
 * server, in processes that got address and secret from it.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/descriptors.h"
#include "t/tools/network.h"
#include "t/tools/served.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Threads of this process. */
static int
threads(void)
{
    char line[128];
    int n = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "Threads: %d", &n) == 1)
            break;
    if (file)
        fclose(file);
    return n;
}

/* Sockets of this process that listen. */
static int
listening(void)
{
    int n = 0;
    for (int fd = 3; fd < 256; fd++) {
        int listens = 0;
        socklen_t length = sizeof(listens);
        n += getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens;
    }
    return n;
}

/* --- groups: members only, in any order --- */

typedef struct group {
    pthread_t thread;
    int rank, other, failed;
} group;

/* One rank's membership in a pair, or in the group of all: other == rank. */
static void *
be_member(void *arg)
{
    group *g = arg;
    int low = g->rank < g->other ? g->rank : g->other, high = g->rank < g->other ? g->other : g->rank;
    char job[32] = "all";
    hoop_comm *comm = NULL;
    if (low != high)
        snprintf(job, sizeof(job), "pair %d %d", low, high);
    hoop_result result =
        low == high ? served_join(&comm, job, g->rank, SERVED_RANKS) : served_join(&comm, job, g->rank == high, 2);
    g->failed =
        !case_ok(result == HOOP_SUCCESS && served_adds_up(comm) == 0, "rank %d, %s: %s", g->rank, job, served_why());
    return NULL;
}

/* Every pair of ranks is a group, and all are one; each rank makes its groups in an order of its own. */
static int
groups(int rank)
{
    group g[SERVED_RANKS];
    int order[SERVED_RANKS], bad = 0;
    tap_shuffle(order, SERVED_RANKS);
    for (int i = 0; i < SERVED_RANKS; i++) {
        g[i] = (group){.rank = rank, .other = (order[i] + rank) % SERVED_RANKS};
        pthread_create(&g[i].thread, NULL, be_member, &g[i]);
        usleep((useconds_t)tap_pick(20000));
    }
    for (int i = 0; i < SERVED_RANKS; i++) {
        pthread_join(g[i].thread, NULL);
        bad += g[i].failed;
    }
    return bad;
}

/* ThreadSanitizer, too, allows no threads in the forks of a process with threads. */
static void
test_groups(void)
{
    pid_t pids[SERVED_RANKS];
    for (int i = 0; i < SERVED_RANKS; i++)
        pids[i] = served_spawn(groups, i);
    hoop_server *server = served_start("127.0.0.1:0");
    ok(server && strncmp(served_address, "127.0.0.1:", 10) == 0, "a server on loopback: %s", served_address);
    served_go();
    ok(served_reap(pids, SERVED_RANKS) == 0, "four processes, members of four groups each");
    ok(hoop_server_stop(server) == HOOP_SUCCESS, "the server ends");
}

static int
be_one_of_two(int rank)
{
    hoop_comm *comm = NULL;
    return !ok(served_join(&comm, "two", rank, 2) == HOOP_SUCCESS && served_adds_up(comm) == 0, "%s", served_why());
}

/* --- secrets --- */

static void
test_secrets(void)
{
    char other[HOOP_SECRET_TEXT];
    hoop_config *config = hoop_config_new();
    hoop_server *server;
    ok(hoop_secret_new(served_secret, sizeof(served_secret)) == HOOP_SUCCESS && strlen(served_secret) == 64 &&
           strspn(served_secret, "0123456789abcdef") == 64,
       "a secret is 64 hexadecimal digits");
    ok(hoop_secret_new(other, sizeof(other)) == HOOP_SUCCESS && strcmp(other, served_secret) != 0,
       "and another each time");
    ok(hoop_secret_new(other, 64) == HOOP_ERR_INVALID_ARGUMENT && strstr(served_why(), "HOOP_SECRET_TEXT"),
       "no room: %s", served_why());
    ok(hoop_config_set(config, "secret", "0123") == HOOP_ERR_INVALID_ARGUMENT &&
           strstr(served_why(), "64 hexadecimal") && !strstr(served_why(), "0123"),
       "a wrong secret is refused, and not quoted: %s", served_why());
    setenv("HOOP_SECRET", other, 1);
    hoop_config_set(config, "rendezvous", "127.0.0.1:0");
    ok(hoop_server_start(&server, config) == HOOP_ERR_INVALID_ARGUMENT && !server &&
           strstr(served_why(), "HOOP_SECRET_FILE") && !strstr(served_why(), other),
       "none is taken from the environment: %s", served_why());
    unsetenv("HOOP_SECRET");
    ok(hoop_server_start(&server, config) == HOOP_ERR_AUTH && strstr(served_why(), "hoop_secret_new"),
       "nor guessed: %s", served_why());
    hoop_config_free(config);
}

/* --- one server a process --- */

static void
test_shared(void)
{
    char again[HOOP_SERVER_TEXT], other[HOOP_SECRET_TEXT];
    int open_before = count_descriptors(0), threads_before = threads();
    hoop_server *server = served_start("127.0.0.1:0"), *second = NULL;
    hoop_config *config = hoop_config_new();
    hoop_config_set(config, "secret", served_secret);
    ok(hoop_server_start(&second, config) == HOOP_SUCCESS && hoop_server_address(second, again, sizeof(again)) == 0 &&
           strcmp(again, served_address) == 0,
       "a second start shares the server");
    ok(hoop_server_address(second, again, strlen(served_address)) == HOOP_ERR_INVALID_ARGUMENT && !*again,
       "no room for the address");
    hoop_secret_new(other, sizeof(other));
    hoop_config_set(config, "secret", other);
    ok(hoop_server_start(&second, config) == HOOP_ERR_INVALID_USAGE && strstr(served_why(), "another secret"), "%s",
       served_why());
    hoop_config_set(config, "secret", served_secret);
    hoop_config_set(config, "rendezvous", "127.0.0.1:1");
    ok(hoop_server_start(&second, config) == HOOP_ERR_INVALID_USAGE && strstr(served_why(), "another address"), "%s",
       served_why());
    hoop_config_set(config, "rendezvous", served_address);
    hoop_config_set(config, "attempt", "1");
    ok(hoop_server_start(&second, config) == HOOP_ERR_INVALID_USAGE && strstr(served_why(), "HOOP_ATTEMPT"), "%s",
       served_why());
    hoop_config_set(config, "attempt", "0");
    hoop_config_set(config, "security", "none");
    ok(hoop_server_start(&second, config) == HOOP_ERR_INVALID_USAGE && strstr(served_why(), "HOOP_SECURITY"), "%s",
       served_why());
    hoop_config_free(config);
    hoop_server_stop(server);
    ok(served_run(be_one_of_two, 0, 2) == 0, "it serves until it was stopped as often as it was started");
    hoop_server_stop(server);
    is_int(open_before, count_descriptors(0), "and leaves no descriptor");
    is_int(threads_before, threads(), "and no thread");
}

static int
hold_port(int rank)
{
    return !ok(!served_start(served_address) && strstr(served_why(), "is in use") && strstr(served_why(), "ss -ltnp"),
               "%s", served_why());
}

static void
test_ports(void)
{
    pid_t pid = served_spawn(hold_port, 0);
    hoop_server *server = served_start("127.0.0.1:0");
    served_go();
    ok(served_reap(&pid, 1) == 0, "a port in use: the error says so, and how to find its owner");
    hoop_server_stop(server);
    server = served_start(served_address);
    ok(server && hoop_server_stop(server) == HOOP_SUCCESS, "the port is free again at once");
    ok(!served_start("192.0.2.7:0") && strstr(served_why(), "not an address of this host"),
       "another host's address: %s", served_why());
    ok(!served_start("nonsense") && strstr(served_why(), "host:port"), "no address: %s", served_why());
    ok(hoop_server_start(NULL, NULL) == HOOP_ERR_INVALID_ARGUMENT && hoop_server_stop(NULL) == HOOP_SUCCESS &&
           hoop_server_address(NULL, NULL, 0) == HOOP_ERR_INVALID_ARGUMENT,
       "NULL arguments");
}

/* A server announces itself at this host, and a rank of this process reaches it, wherever that host may be. */
static void
check_announced(hoop_config *config, const char *key, const char *value, const char *host)
{
    hoop_server *server = NULL;
    hoop_comm *comm = NULL;
    hoop_config_set(config, key, value);
    ok(hoop_server_start(&server, config) == HOOP_SUCCESS &&
           !hoop_server_address(server, served_address, sizeof(served_address)) &&
           strncmp(served_address, host, strlen(host)) == 0 && served_address[strlen(host)] == ':',
       "%s=%s: %s", key, value, served_address);
    hoop_config *mine = hoop_config_new();
    hoop_config_set(mine, "secret", served_secret);
    hoop_config_set(mine, "rendezvous", served_address);
    hoop_config_set(mine, "size", "1");
    ok(hoop_comm_create(&comm, mine) == HOOP_SUCCESS, "and this process reaches it: %s", comm ? "" : served_why());
    hoop_comm_destroy(comm);
    hoop_config_free(mine);
    hoop_server_stop(server);
    hoop_config_set(config, key, "");
}

/* In a network with an address beside loopback. */
static int
default_address(int rank)
{
    const char *reason;
    hoop_server *server;
    hoop_config *config = hoop_config_new();
    if (!own_network("10.77.0.5", &reason))
        return 77;
    hoop_config_set(config, "secret", served_secret);
    for (int i = 0; i < 2; i++) {
        ok(hoop_server_start(&server, config) == HOOP_SUCCESS &&
               !hoop_server_address(server, served_address, sizeof(served_address)) &&
               strncmp(served_address, "10.77.0.5:", 10) == 0 && served_address[10] != '0',
           "%s", served_address);
        hoop_server_stop(server);
        hoop_config_set(config, "rendezvous", "0.0.0.0:0");
    }
    hoop_config_set(config, "rendezvous", "");
    check_announced(config, "join_host", "10.77.0.9", "10.77.0.5");
    check_announced(config, "join_host", "127.0.1.1", "10.77.0.5");
    check_announced(config, "advertise", "192.0.2.7", "192.0.2.7");
    check_announced(config, "advertise", "192.0.2.7:5801", "192.0.2.7"); /* that port is a rank's */
    hoop_config_set(config, "rendezvous", "0.0.0.0:0");
    hoop_config_set(config, "security", "none");
    ok(hoop_server_start(&server, config) == HOOP_ERR_INVALID_ARGUMENT && strstr(served_why(), "loopback"), "%s",
       served_why());
    hoop_config_set(config, "rendezvous", "");
    ok(hoop_server_start(&server, config) == HOOP_SUCCESS &&
           !hoop_server_address(server, served_address, sizeof(served_address)) &&
           strncmp(served_address, "127.0.0.1:", 10) == 0,
       "%s", served_address);
    hoop_server_stop(server);
    hoop_config_free(config);
    return 0;
}

static void
test_default_address(void)
{
    int status;
    pid_t pid = served_spawn(default_address, 0);
    served_go();
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip(1, "no network namespace for it");
    else
        is_int(0, status, "without an address: the one by which other hosts are reached; loopback without security");
}

/* --- many jobs --- */

enum { JOBS = 100 };

static int
many_jobs(int rank)
{
    int bad = 0;
    for (int i = 0; i < JOBS && bad < 3; i++) {
        hoop_comm *comm = NULL;
        char job[32];
        snprintf(job, sizeof(job), "job %d", i);
        bool good = served_join(&comm, job, rank, 2) == HOOP_SUCCESS && served_adds_up(comm) == 0;
        bad += !case_ok(good, "rank %d, %s: %s", rank, job, served_why());
    }
    return bad;
}

static void
await_descriptors(int n)
{
    for (tap_wait w = {0}; count_descriptors(0) != n && tap_waits(&w);)
        usleep(50000);
}

static void
test_many_jobs(void)
{
    pid_t pids[2] = {served_spawn(many_jobs, 0), served_spawn(many_jobs, 1)};
    hoop_server *server = served_start("127.0.0.1:0");
    int before = count_descriptors(0);
    served_go();
    ok(served_reap(pids, 2) == 0, "%d jobs, one after the other, on one server", JOBS);
    await_descriptors(before);
    is_int(before, count_descriptors(0), "which keeps no connection of them");
    hoop_server_stop(server);
}

/* --- forks --- */

static hoop_server *inherited;

static int
child_of_server(int rank)
{
    char theirs[HOOP_SERVER_TEXT], mine[HOOP_SERVER_TEXT];
    hoop_server *own;
    ok(listening() == 0, "the child has no descriptor of the server");
    ok(hoop_server_address(inherited, theirs, sizeof(theirs)) == HOOP_SUCCESS && strcmp(theirs, served_address) == 0,
       "it knows the address");
    ok(hoop_server_stop(inherited) == HOOP_SUCCESS, "it stops nothing");
#ifdef __SANITIZE_THREAD__
    return 0; /* it allows no thread here */
#endif
    own = served_start("127.0.0.1:0");
    ok(own && hoop_server_address(own, mine, sizeof(mine)) == HOOP_SUCCESS && strcmp(mine, theirs) != 0,
       "it may serve itself");
    ok(hoop_server_stop(own) == HOOP_SUCCESS, "and stop that");
    return 0;
}

static void *
fork_often(void *arg)
{
    int *bad = arg;
    for (int i = 0; i < 40; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(listening() != 0);
        *bad += served_reap(&pid, 1);
    }
    return NULL;
}

static void
test_forks(void)
{
    pid_t pids[2] = {served_spawn(many_jobs, 0), served_spawn(many_jobs, 1)};
    pthread_t thread;
    int bad = 0, before;
    inherited = served_start("127.0.0.1:0");
    before = count_descriptors(0);
    pthread_create(&thread, NULL, fork_often, &bad);
    served_go();
    ok(served_reap(pids, 2) == 0, "the server goes on in the parent while that forks");
    pthread_join(thread, NULL);
    is_int(0, bad, "and no child keeps its port");
    await_descriptors(before);
    ok(served_run(child_of_server, 0, 1) == 0, "a fork of the process that serves");
    hoop_server_stop(inherited);
}

int
main(void)
{
    plan_lazy();
    tap_limit(SERVED_LIMIT);
    tap_seed();
    if (hoop_secret_new(served_secret, sizeof(served_secret)))
        bail("no secret");
    test_groups(); /* first: ThreadSanitizer does not see that a fork makes locks anew */
    test_secrets();
    test_shared();
    test_ports();
    test_default_address();
    test_many_jobs();
    test_forks();
    return tap_failures() != 0;
}
