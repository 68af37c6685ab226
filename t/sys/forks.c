/* SPDX-License-Identifier: MIT */
/*
 * forks: what the program does while a line is being logged or another thread forks: its function for the log is slow, or
 * forks itself; the child of such a fork is a rank; and a child of a fork while rings are made keeps none of their sockets.
 */
#include "hoop.h"
#include "net/handshake.h"
#include "t/tap/tap.h"
#include "t/tools/descriptors.h"
#include "t/tools/party.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT = 30 };

static party p;

/* 0 when the sum is right. */
static int
adds_up(hoop_comm *comm)
{
    int sum = hoop_comm_rank(comm) + 1, size = hoop_comm_size(comm);
    return hoop_allreduce(&sum, &sum, 1, HOOP_INT32, HOOP_SUM, comm) != HOOP_SUCCESS || sum != size * (size + 1) / 2;
}

/* --- a fork in the middle of a line --- */

/* The log's function of this test: a line stands still while a thread of its own forks. */
static atomic_int speaking, forked;

static void
speak(void *arg, int level, const char *line)
{
    if (!strstr(line, "listening on"))
        return;
    atomic_store(&speaking, 1);
    while (!atomic_load(&forked))
        usleep(1000);
}

/* The child of a process that has used the library is a rank: it takes the listener's lock, and logs. */
static int
is_a_rank(void)
{
    hoop_comm *comm = NULL;
    alarm(20);
    hoop_log_to(NULL, NULL);
    setenv("HOOP_JOB", "the child's", 1);
    return hoop_comm_create(&comm, NULL) != HOOP_SUCCESS || adds_up(comm) || hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

static void *
fork_a_rank(void *arg)
{
    int *status = arg;
    while (!atomic_load(&speaking))
        usleep(1000);
    pid_t child = fork();
    if (child == 0)
        _exit(is_a_rank());
    atomic_store(&forked, 1);
    waitpid(child, status, 0);
    return NULL;
}

static int
forks_in_a_line(int rank, int size, void *arg)
{
    hoop_comm *comm = NULL;
    pthread_t thread;
    int status = -1, bad;
    setenv("HOOP_DEBUG", "info", 1);
    hoop_log_to(speak, NULL);
    pthread_create(&thread, NULL, fork_a_rank, &status);
    bad = hoop_comm_create(&comm, NULL) != HOOP_SUCCESS || adds_up(comm);
    pthread_join(thread, NULL);
    party_note("the child ended with %x", status);
    return bad || status != 0 || hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* --- a log that stands still --- */

static atomic_int told, go_on, over;

static void
stand(void *arg, int level, const char *line)
{
    if (!strstr(line, "closed") || atomic_fetch_add(&told, 1) > 0)
        return;
    while (!atomic_load(&go_on))
        usleep(1000);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
}

static void *
drive(void *comm)
{
    for (; !atomic_load(&over); usleep(1000))
        hoop_comm_progress(comm);
    return NULL;
}

/* A greeting for a job that nobody knows: a line in the log. */
static int
knock(const struct sockaddr_in *sin)
{
    const uint8_t nonce[32] = {1};
    const hp_hello hello = {.job_id = {9}, .role = HP_ROLE_DATA, .mode = HP_MODE_AUTH, .ver_min = HP_WIRE_MIN};
    uint8_t m1[HP_M1] = {0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    hp_hello_put(m1, &hello, nonce);
    if (connect(fd, (const struct sockaddr *)sin, sizeof(*sin)) != 0 || send(fd, m1, HP_M1, MSG_NOSIGNAL) != HP_M1)
        bail("nobody listens");
    return fd;
}

/* While one thread is in the program's function for the log: the others serve the door, and fork. */
static int
others_go_on(hoop_comm *other)
{
    char byte;
    struct sockaddr_in own = party_own_port();
    int fd = knock(&own), closed = 0;
    for (tap_wait w = {0}; !closed && tap_waits(&w);) {
        hoop_comm_progress(other);
        closed = recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
    }
    close(fd);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    return closed && waitpid(child, NULL, 0) == child;
}

static int
slow_log(int rank, int size, void *arg)
{
    hoop_comm *comm = NULL, *other = NULL;
    pthread_t thread;
    int bad;
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS || party_second_world(&other) != HOOP_SUCCESS)
        return 1;
    hoop_log_to(stand, NULL);
    pthread_create(&thread, NULL, drive, comm);
    struct sockaddr_in own = party_own_port();
    int fd = knock(&own);
    while (!atomic_load(&told))
        usleep(1000);
    bad = !others_go_on(other);
    atomic_store(&go_on, 1);
    while (atomic_load(&told) < 2)
        usleep(1000);
    atomic_store(&over, 1);
    pthread_join(thread, NULL);
    close(fd);
    return bad || adds_up(comm) || adds_up(other) || hoop_comm_destroy(other) != HOOP_SUCCESS ||
           hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* --- a fork while the server of this process is stopped, and its thread in the program's function for the log --- */

enum { CANNOT_SERVE = 100 };

static atomic_int stopper;

/* A server of this process, at any port, with the party's secret. */
static hoop_server *
serve(void)
{
    hoop_server *server = NULL;
    hoop_config *config = hoop_config_new();
    if (hoop_config_set(config, "rendezvous", "127.0.0.1:0") != HOOP_SUCCESS ||
        hoop_server_start(&server, config) != HOOP_SUCCESS)
        server = NULL;
    hoop_config_free(config);
    return server;
}

/* In a child. ThreadSanitizer allows no thread there. */
static int
cannot_serve(void)
{
    if (tap_sanitized())
        return 0;
    hoop_server *own = serve();
    return own && hoop_server_stop(own) == HOOP_SUCCESS ? 0 : CANNOT_SERVE;
}

static void
stand_until_forked(void *arg, int level, const char *line)
{
    if (!strstr(line, "closed"))
        return;
    atomic_store(&speaking, 1);
    while (!atomic_load(&forked))
        usleep(1000);
}

static void *
stop_server(void *server)
{
    atomic_store(&stopper, (int)syscall(SYS_gettid));
    hoop_server_stop(server);
    return NULL;
}

/* Whether that thread sleeps now: it does so only in hoop_server_stop. */
static int
sleeps(int thread)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", thread);
    FILE *file = fopen(path, "re");
    if (!file || !fgets(text, sizeof(text), file))
        bail("cannot read %s", path);
    fclose(file);
    const char *state = strrchr(text, ')');
    return state && state[2] == 'S';
}

static int
forks_in_a_stop(int rank, int size, void *arg)
{
    char address[HOOP_SERVER_TEXT] = "";
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    pthread_t thread;
    int status = -1;
    setenv("HOOP_DEBUG", "info", 1);
    hoop_log_to(stand_until_forked, NULL);
    hoop_server *server = serve();
    hoop_server_address(server, address, sizeof(address));
    sin.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
    int fd = knock(&sin);
    while (!atomic_load(&speaking))
        usleep(1000);
    pthread_create(&thread, NULL, stop_server, server);
    while (!atomic_load(&stopper) || !sleeps(atomic_load(&stopper)))
        usleep(1000);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        hoop_log_to(NULL, NULL);
        _exit(cannot_serve());
    }
    waitpid(child, &status, 0);
    party_note("the child ended with %x", status);
    atomic_store(&forked, 1);
    pthread_join(thread, NULL);
    close(fd);
    return status;
}

/* --- forks while rings are made and ended --- */

enum { FORK_SECONDS = 4, PER_CHILD_S = 40 };

static atomic_int rings_over, kept_sockets, hung, wrong_children;

static void
fork_once(void)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        alarm(PER_CHILD_S);
        _exit(count_sockets() + cannot_serve());
    }
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        atomic_fetch_add(WTERMSIG(status) == SIGALRM ? &hung : &wrong_children, 1);
    else
        atomic_fetch_add(&kept_sockets, WEXITSTATUS(status));
}

static void *
fork_on(void *arg)
{
    int *forks = arg;
    for (; !atomic_load(&rings_over); ++*forks)
        fork_once();
    return NULL;
}

/* A world, and its two halves. 0 when all sums are right. */
static int
makes_rings(int round)
{
    char job[64];
    hoop_comm *comm = NULL, *half = NULL;
    snprintf(job, sizeof(job), "round %d", round);
    setenv("HOOP_JOB", job, 1);
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS || adds_up(comm) ||
        hoop_comm_split(comm, hoop_comm_rank(comm) % 2, 0, &half) != HOOP_SUCCESS || adds_up(half))
        return 1;
    return hoop_comm_destroy(half) != HOOP_SUCCESS || adds_up(comm) || hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

typedef struct fork_case {
    double until;
    int serves; /* the rank that forks has the server of the rings */
} fork_case;

/* All further rings of these ranks meet at a server in rank 0. */
static int
move_to_own_server(hoop_comm *comm, hoop_server **server)
{
    char address[HOOP_SERVER_TEXT] = "";
    if (hoop_comm_rank(comm) == 0) {
        *server = serve();
        hoop_server_address(*server, address, sizeof(address));
    }
    int bad = hoop_broadcast(address, address, sizeof(address), HOOP_UINT8, 0, comm) != HOOP_SUCCESS || !*address;
    return setenv("HOOP_RENDEZVOUS", address, 1) != 0 || bad;
}

/* Rank 0 forks for some seconds, about a thousand times, and tells the others when that is enough. */
static int
forks_among_rings(int rank, int size, void *arg)
{
    const fork_case *c = arg;
    hoop_comm *lasting = NULL;
    hoop_server *server = NULL;
    pthread_t thread;
    int forks = 0, rounds = 0, bad = 0, more = 1;
    if (hoop_comm_create(&lasting, NULL) != HOOP_SUCCESS || (c->serves && move_to_own_server(lasting, &server)))
        return 1;
    if (rank == 0)
        pthread_create(&thread, NULL, fork_on, &forks);
    for (; more && !bad; rounds++) {
        bad = makes_rings(rounds);
        more = rank == 0 && party_clock() < c->until;
        bad |= hoop_broadcast(&more, &more, 1, HOOP_INT32, 0, lasting) != HOOP_SUCCESS;
    }
    if (rank == 0) {
        atomic_store(&rings_over, 1);
        pthread_join(thread, NULL);
        party_note("%d forks in %d rounds: %d sockets in children, %d children hung, %d crashed, rings are %s", forks,
                   rounds, kept_sockets, hung, wrong_children, bad ? "wrong" : "right");
    }
    bad |= hoop_comm_destroy(lasting) != HOOP_SUCCESS || hoop_server_stop(server) != HOOP_SUCCESS;
    return bad || kept_sockets || hung || wrong_children;
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    party_open(&p);
    ok(party_run(&p, 2, forks_in_a_line, NULL, LIMIT) == 0,
       "a child of a rank is a rank itself, whatever its parent's threads were doing");
    diag("%s", p.guest[0].note);
    ok(party_run(&p, 2, slow_log, NULL, LIMIT) == 0,
       "a slow function for the log stops no other communicator and no fork, and may fork itself");
    ok(party_run(&p, 1, forks_in_a_stop, NULL, LIMIT) == 0,
       "a fork does not wait for the server of its process to end, and the child may serve");
    diag("%s", p.guest[0].note);
    for (int serves = 0; serves < 2; serves++) {
        fork_case c = {.until = party_clock() + FORK_SECONDS, .serves = serves};
        ok(party_run(&p, 4, forks_among_rings, &c, LIMIT) == 0,
           "a child that is forked while rings are made, split and destroyed has no socket of theirs%s",
           serves ? ", nor of the server beside them, and may serve itself" : "");
        diag("%s", p.guest[0].note);
    }
    party_close(&p);
    return 0;
}
