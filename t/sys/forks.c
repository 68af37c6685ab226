/* SPDX-License-Identifier: MIT */
/*
 * forks: what the program does while a line is being logged or another thread forks: its function for the log is slow, or
 * forks itself; and the child of such a fork is a rank.
 */
#include "hoop.h"
#include "net/handshake.h"
#include "t/tap/tap.h"
#include "t/tools/party.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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

/* The port on which this process listens. */
static struct sockaddr_in
own_port(void)
{
    struct sockaddr_in sin = {0};
    for (int fd = 3; fd < 256; fd++) {
        int listens = 0;
        socklen_t length = sizeof(listens), room = sizeof(sin);
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens)
            getsockname(fd, (struct sockaddr *)&sin, &room);
    }
    return sin;
}

/* --- a fork in the middle of a line --- */

/* The log's function of this test: a line stands still while a thread of its own forks. */
static atomic_int speaking, forked;

static void
speak(void *arg, int level, const char *line)
{
    (void)arg, (void)level;
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
    (void)rank, (void)size, (void)arg;
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
    (void)arg, (void)level;
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
knock(void)
{
    const uint8_t nonce[32] = {1};
    const hp_hello hello = {.job_id = {9}, .role = HP_ROLE_DATA, .mode = HP_MODE_AUTH, .ver_min = HP_WIRE_MIN};
    uint8_t m1[HP_M1] = {0};
    struct sockaddr_in sin = own_port();
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    hp_hello_put(m1, &hello, nonce);
    if (connect(fd, (struct sockaddr *)&sin, sizeof(sin)) != 0 || send(fd, m1, HP_M1, MSG_NOSIGNAL) != HP_M1)
        bail("nobody listens");
    return fd;
}

/* While one thread is in the program's function for the log: the others serve the door, and fork. */
static int
others_go_on(hoop_comm *other)
{
    char byte;
    double until = party_clock() + 5;
    int fd = knock(), closed = 0;
    while (!closed && party_clock() < until) {
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
    (void)rank, (void)size, (void)arg;
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS || party_second_world(&other) != HOOP_SUCCESS)
        return 1;
    hoop_log_to(stand, NULL);
    pthread_create(&thread, NULL, drive, comm);
    int fd = knock();
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

int
main(void)
{
    tap_limit(120);
    plan_lazy();
    party_open(&p);
    ok(party_run(&p, 2, forks_in_a_line, NULL, LIMIT) == 0,
       "a child of a rank is a rank itself, whatever its parent's threads were doing");
    diag("%s", p.guest[0].note);
    ok(party_run(&p, 2, slow_log, NULL, LIMIT) == 0,
       "a slow function for the log stops no other communicator and no fork, and may fork itself");
    party_close(&p);
    return 0;
}
