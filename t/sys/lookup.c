/* SPDX-License-Identifier: MIT */
/*
 * A name service that is dead or slow: joining ends within its limit all the same and says what was looked up, and a
 * name that is found late still is found. An address in numbers asks nobody and starts no thread. The name service is
 * this program's own.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <dlfcn.h>
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

enum { DEAD_S = 60, SLOW_MS = 1200 };

static party p;
static atomic_int asked, beside; /* lookups of names; of these, in a thread other than the first */

int
getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
    typedef int lookup_fn(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    lookup_fn *real = (lookup_fn *)(uintptr_t)dlsym(RTLD_NEXT, "getaddrinfo");
    if (hints->ai_flags & AI_NUMERICHOST)
        return real(host, service, hints, found);
    atomic_fetch_add(&asked, 1);
    atomic_fetch_add(&beside, gettid() != getpid());
    if (strcmp(host, "dead.invalid") == 0)
        sleep(DEAD_S);
    if (strcmp(host, "two.invalid") == 0) { /* at the first one nobody listens */
        int reason = real("127.0.0.9", service, hints, found);
        return reason ? reason : real("127.0.0.1", service, hints, &(*found)->ai_next);
    }
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

/* Joins by the name in `arg`, or by the number; says how that went. */
static int
join(int rank, int size, void *arg)
{
    const char *host = arg, *port = strrchr(p.address, ':');
    hoop_error e = {.size = sizeof(e)};
    hoop_comm *comm = NULL;
    char server[96];
    snprintf(server, sizeof(server), "%s%s", host, port);
    setenv("HOOP_RENDEZVOUS", server, 1);
    int before = threads_before();
    double begin = party_clock();
    hoop_result result = hoop_comm_create(&comm, NULL);
    double took = party_clock() - begin;
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

/* Takes the port of the server that has been killed, before another program does. Nobody listens there. */
static int
hold_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    at.sin_port = htons((uint16_t)atoi(strrchr(p.address, ':') + 1));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    for (tap_wait w = {0}; bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 && tap_waits(&w);)
        usleep(10000); /* it is just ending */
    return fd;
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
    int held = hold_port();
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
    dead();
    slow();
    party_close(&p);
    return tap_failures() != 0;
}
