/* SPDX-License-Identifier: MIT */
/*
 * A name service that is dead or slow: joining ends within its limit all the same and says what was looked up, and a
 * name that is found late still is found. Of a name's addresses that of the server is found, also if it comes later. What
 * has met the server needs no name any more. An address in numbers asks nobody and starts no thread. The name service is this program's own.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DEAD_S = 60, SLOW_MS = 1200, LATE_MS = 3000 };

static party p;
static atomic_int asked, beside; /* lookups of names; of these, in a thread other than the first */

int
getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
    typedef int lookup_fn(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    lookup_fn *real = (lookup_fn *)(uintptr_t)dlsym(RTLD_NEXT, "getaddrinfo");
    if (hints->ai_flags & AI_NUMERICHOST)
        return real(host, service, hints, found);
    int before = atomic_fetch_add(&asked, 1);
    atomic_fetch_add(&beside, gettid() != getpid());
    if (strcmp(host, "dead.invalid") == 0)
        sleep(DEAD_S);
    if (strcmp(host, "two.invalid") == 0 || strcmp(host, "late.invalid") == 0 || strcmp(host, "wrong.invalid") == 0) {
        int reason = real("127.0.0.9", service, hints, found); /* nobody serves there */
        return reason ? reason : real("127.0.0.1", service, hints, &(*found)->ai_next);
    }
    if (strcmp(host, "once.invalid") == 0 && before == 0)
        return real("127.0.0.1", service, hints, found);
    if (strcmp(host, "slow.invalid") != 0)
        return EAI_AGAIN;
    party_nap(SLOW_MS / 1e3);
    return real("127.0.0.1", service, hints, found);
}

static int
threads(void)
{
    char line[128];
    int n = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof(line), status))
        sscanf(line, "Threads: %d", &n);
    if (status)
        fclose(status);
    return n;
}

/* More threads than before; one that was joined may be counted for a moment longer. */
static int
new_threads(int before)
{
    int more = threads() - before;
    for (tap_wait w = {0}; more > 0 && tap_waits(&w);) {
        party_nap(0.01);
        more = threads() - before;
    }
    return more;
}

static void *
nothing(void *arg)
{
    return arg;
}

/* A sanitizer may start a thread of its own with the first of the process. */
static int
threads_before(void)
{
    pthread_t first;
    if (pthread_create(&first, NULL, nothing, NULL) == 0)
        pthread_join(first, NULL);
    return threads();
}

/* The server of rank 0, LATE_MS after the others have begun to look for it. */
static void
serve_late(const char *port)
{
    hoop_server *server;
    hoop_config *config = hoop_config_new();
    char at[96];
    snprintf(at, sizeof(at), "127.0.0.1%s", port);
    party_nap(LATE_MS / 1e3);
    if (hoop_config_set(config, "rendezvous", at) != HOOP_SUCCESS || hoop_server_start(&server, config) != HOOP_SUCCESS)
        party_note("no server at %s", at);
    hoop_config_free(config);
}

/* A secret that is not the server's. */
static void
take_other_secret(int rank)
{
    char text[HOOP_SECRET_TEXT], path[512];
    snprintf(path, sizeof(path), "%s.other%d", getenv("HOOP_SECRET_FILE"), rank);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (hoop_secret_new(text, sizeof(text)) != HOOP_SUCCESS || write(fd, text, sizeof(text) - 1) < 0 || close(fd) != 0)
        party_note("no other secret");
    setenv("HOOP_SECRET_FILE", path, 1);
}

/* A communicator of all ranks of this one. */
static hoop_result
part(hoop_comm *comm, int rank)
{
    hoop_comm *all;
    hoop_result result = hoop_comm_split(comm, 0, rank, &all);
    return result == HOOP_SUCCESS ? hoop_comm_destroy(all) : result;
}

/* Joins by the name in `arg`, or by the number; says how that went. */
static int
join(int rank, int size, void *arg)
{
    const char *host = arg, *port = strrchr(p.address, ':');
    hoop_error e = {.size = sizeof(e)};
    hoop_comm *comm = NULL;
    char server[96];
    if (rank == 0 && strcmp(host, "late.invalid") == 0)
        serve_late(port);
    if (strcmp(host, "wrong.invalid") == 0)
        take_other_secret(rank);
    snprintf(server, sizeof(server), "%s%s", host, port);
    setenv("HOOP_RENDEZVOUS", server, 1);
    int before = threads_before();
    double begin = party_clock();
    hoop_result result = hoop_comm_create(&comm, NULL);
    double took = party_clock() - begin;
    if (result == HOOP_SUCCESS && strcmp(host, "once.invalid") == 0)
        result = part(comm, rank);
    hoop_comm_error(NULL, &e);
    int more = result == HOOP_SUCCESS ? new_threads(before) : -1;
    party_note("%d %.2f %d %d %d %s", (int)result, took, atomic_load(&asked), atomic_load(&beside), more, e.text);
    hoop_comm_destroy(comm);
    return result != HOOP_SUCCESS;
}

static void
run(const char *host, int size, int *code, double *took, int *names, int *others, int *alive)
{
    char copy[64];
    snprintf(copy, sizeof(copy), "%s", host);
    party_start(&p, size, join, copy, 90);
    party_wait(&p);
    sscanf(p.guest[0].note, "%d %lf %d %d %d", code, took, names, others, alive);
}

static void
gone(void)
{
    int code = -1, names = -1, others = -1, alive = -1;
    double took = -1;
    run("once.invalid", 2, &code, &took, &names, &others, &alive);
    ok(code == HOOP_SUCCESS && names == 2, "a split after the name service has gone: %s", p.guest[0].note);
}

static void
dead(void)
{
    int code = -1, names = -1, others = -1, alive = -1;
    double took = -1;
    setenv("HOOP_BOOTSTRAP_TIMEOUT_MS", "2000", 1);
    run("dead.invalid", 2, &code, &took, &names, &others, &alive);
    is_int(HOOP_ERR_RENDEZVOUS, code, "a name service that is dead is an error: %s", p.guest[0].note);
    ok(took >= 1.9 && took < 3 + tap_room(), "within the limit of 2 s (%.2f s)", took);
    ok(strstr(p.guest[0].note, "HOOP_RENDEZVOUS: dead.invalid: looking up the host took too long") != NULL,
       "with the name, and that looking it up took too long");
    ok(p.guest[0].seconds < 5 + tap_room(), "the program ends while the lookup goes on (%.1f s)", p.guest[0].seconds);
    setenv("HOOP_BOOTSTRAP_TIMEOUT_MS", "60000", 1);
    run("again.invalid", 2, &code, &took, &names, &others, &alive);
    ok(code == HOOP_ERR_INVALID_ARGUMENT && took < 1 + tap_room(), "one that gives an error is told at once: %s",
       p.guest[0].note);
}

/* Takes the server's port at another address, or that of a server that has been killed, before another program does. */
static int
hold_port(in_addr_t address)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    at.sin_port = htons((uint16_t)atoi(strrchr(p.address, ':') + 1));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    for (tap_wait w = {0}; bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 && tap_waits(&w);)
        usleep(10000); /* it is just ending */
    return fd;
}

/* The server's own port is held, so that no other program takes it before. */
static void
late(void)
{
    int code = -1, names = -1, others = -1, alive = -1, held = hold_port(INADDR_LOOPBACK);
    double took = -1;
    run("late.invalid", 2, &code, &took, &names, &others, &alive);
    close(held);
    is_int(HOOP_SUCCESS, code, "a name of two addresses, and a server that comes to the second one later: %s",
           p.guest[0].note);
}

static void
slow(void)
{
    int code = -1, names = -1, others = -1, alive = -1;
    double took = -1;
    run("slow.invalid", 2, &code, &took, &names, &others, &alive);
    is_int(HOOP_SUCCESS, code, "a name that is found after %d ms: %s", SLOW_MS, p.guest[0].note);
    is_int(1, names, "it was looked up once");
    is_int(1, others, "by a thread beside");
    is_int(0, alive, "which has gone");
    kill(p.server, SIGKILL);
    late();
    int held = hold_port(INADDR_LOOPBACK);
    setenv("HOOP_BOOTSTRAP_TIMEOUT_MS", "2000", 1);
    run("slow.invalid", 2, &code, &took, &names, &others, &alive);
    close(held);
    ok(code == HOOP_ERR_RENDEZVOUS && took < 3 + tap_room(), "with no server there, both together keep the limit: %s",
       p.guest[0].note);
}

static void
numeric(void)
{
    int code = -1, names = -1, others = -1, alive = -1;
    double took = -1;
    run("127.0.0.1", 2, &code, &took, &names, &others, &alive);
    is_int(HOOP_SUCCESS, code, "an address in numbers");
    is_int(0, names, "is not looked up");
    is_int(0, alive, "and starts no thread");
}

static void
several(void)
{
    int code = -1, names = -1, others = -1, alive = -1;
    double took = -1;
    run("two.invalid", 2, &code, &took, &names, &others, &alive);
    is_int(HOOP_SUCCESS, code, "a name of two addresses, and a server at the second: %s", p.guest[0].note);
    int stranger = hold_port(0x7f000009);
    int listens = listen(stranger, 8) == 0;
    run("two.invalid", 2, &code, &took, &names, &others, &alive);
    close(stranger);
    ok(listens && code == HOOP_SUCCESS, "another program listens at the first, and says nothing: %s", p.guest[0].note);
    setenv("HOOP_BOOTSTRAP_TIMEOUT_MS", "2000", 1);
    run("wrong.invalid", 2, &code, &took, &names, &others, &alive);
    setenv("HOOP_BOOTSTRAP_TIMEOUT_MS", "60000", 1);
    is_int(HOOP_ERR_AUTH, code, "with another secret than the server's at one of two addresses: %s", p.guest[0].note);
    ok(strstr(p.guest[0].note, "HOOP_SECRET_FILE=") != NULL, "the error says where this rank has it from");
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    setenv("HOOP_BOOTSTRAP_TIMEOUT_MS", "60000", 1);
    party_open(&p);
    numeric();
    several();
    gone();
    dead();
    slow();
    party_close(&p);
    return tap_failures() != 0;
}
