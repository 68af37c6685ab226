/* SPDX-License-Identifier: MIT */
/*
 * listener: one port a process, whatever it does: communicators, splits, a fork, a proxy before it, a range of ports as
 * a firewall wants it; and crowds of strangers at every port of a job that has few descriptors.
 */
#include "hoop.h"
#include "net/handshake.h"
#include "net/secret.h"
#include "t/tap/tap.h"
#include "t/tools/descriptors.h"
#include "t/tools/network.h"
#include "t/tools/party.h"
#include "t/tools/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT = 60 };

static party p;

/* --- ports --- */

static struct sockaddr_in
loopback(int port)
{
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return sin;
}

static void
set_range(int first, int n)
{
    char text[32];
    snprintf(text, sizeof(text), "%d-%d", first, first + n - 1);
    setenv("HOOP_PORT_RANGE", text, 1);
}

/* Ports on which this process listens, and the first of them. */
static int
listening(int *port)
{
    char line[256], path[64], link[64];
    int n = 0;
    FILE *file = fopen("/proc/self/net/tcp", "re");
    while (file && fgets(line, sizeof(line), file)) {
        unsigned at, state;
        unsigned long inode;
        char wanted[64];
        if (sscanf(line, " %*d: %*8x:%4x %*8x:%*4x %2x %*s %*s %*s %*d %*d %lu", &at, &state, &inode) != 3 ||
            state != 10)
            continue;
        snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
        for (int fd = 0; fd < 256; fd++) {
            snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
            ssize_t length = readlink(path, link, sizeof(link) - 1);
            if (length <= 0)
                continue;
            link[length] = 0;
            if (strcmp(link, wanted) == 0 && n++ == 0)
                *port = (int)at;
        }
    }
    if (file)
        fclose(file);
    return n;
}

/* --- operations --- */

/* Sums of several sizes, so that chords are opened too; 0 when all are right. */
static int
adds_up(hoop_comm *comm)
{
    static const size_t counts[] = {1, 300, 5000, 100000};
    static float x[100000];
    int size = hoop_comm_size(comm), rank = hoop_comm_rank(comm);
    for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
        for (size_t i = 0; i < counts[k]; i++)
            x[i] = (float)(rank + 1 + (int)(i % 7));
        if (hoop_allreduce(x, x, counts[k], HOOP_FLOAT32, HOOP_SUM, comm) != HOOP_SUCCESS)
            return 1;
        for (size_t i = 0; i < counts[k]; i++)
            if (x[i] != (float)(size * (size + 1) / 2 + size * (int)(i % 7)))
                return 2;
    }
    return 0;
}

static int
fail(const char *what, const hoop_comm *comm)
{
    hoop_error e = {.size = sizeof(e)};
    hoop_comm_error(comm, &e);
    party_note("%s: %d %s", what, (int)e.code, e.text);
    return 1;
}

/* Five communicators: two worlds, a copy, a half, and a half of the copy, which is split once more. */
static int
five(int rank, int size, void *arg)
{
    hoop_comm *comm[5] = {0};
    int port = 0, range = arg ? *(int *)arg : 0, ports;
    if (hoop_comm_create(&comm[0], NULL) != HOOP_SUCCESS || party_second_world(&comm[1]) != HOOP_SUCCESS)
        return fail("create", NULL);
    if (hoop_comm_split(comm[0], 0, size - rank, &comm[2]) != HOOP_SUCCESS ||
        hoop_comm_split(comm[1], rank % 2, 0, &comm[3]) != HOOP_SUCCESS ||
        hoop_comm_split(comm[2], rank / 2, 0, &comm[4]) != HOOP_SUCCESS)
        return fail("split", NULL);
    for (int k = 0; k < 5; k++)
        if (adds_up(comm[k]))
            return fail("sum", comm[k]);
    ports = listening(&port);
    party_note("%d %d", ports, port);
    if (ports != 1 || (range && (port < range || port >= range + size)))
        return 2;
    for (int k = 4; k >= 0; k--)
        if (hoop_comm_destroy(comm[k]) != HOOP_SUCCESS)
            return fail("destroy", NULL);
    if (listening(&port) != 0)
        return 3;
    return 0;
}

static void
test_one_port(void)
{
    int range = party_ports(4);
    ok(party_run(&p, 4, five, NULL, LIMIT) == 0, "five communicators: one listening socket a process, none afterwards");
    set_range(range, 4);
    ok(party_run(&p, 4, five, &range, LIMIT) == 0, "likewise where there is just one port for each process");
    ok(party_run(&p, 4, five, &range, LIMIT) == 0, "and again, at once");
    unsetenv("HOOP_PORT_RANGE");
}

static int
create(int rank, int size, void *arg)
{
    hoop_comm *comm = NULL;
    hoop_error e = {.size = sizeof(e)};
    hoop_result result = hoop_comm_create(&comm, NULL);
    hoop_comm_error(NULL, &e);
    party_note("%d %s", (int)result, e.text);
    hoop_comm_destroy(comm);
    return 0;
}

static void
test_used_up(void)
{
    char wanted[64];
    int range = party_ports(2), lacking = 0, told = 0;
    set_range(range, 2);
    setenv("HOOP_BOOTSTRAP_TIMEOUT_MS", "10000", 1); /* in which the other two wait for the third */
    party_run(&p, 3, create, NULL, LIMIT);
    snprintf(wanted, sizeof(wanted), "HOOP_PORT_RANGE=%d-%d", range, range + 1);
    for (int i = 0; i < 3; i++) {
        const char *note = p.guest[i].note;
        diag("rank %d: %s", i, note);
        lacking += strtol(note, NULL, 10) == HOOP_ERR_SYSTEM && strstr(note, wanted) && strstr(note, "larger range");
        told += strtol(note, NULL, 10) != HOOP_SUCCESS;
    }
    is_int(1, lacking, "three processes, two ports: one says that the range is used up");
    is_int(3, told, "and nobody starts");
    setenv("HOOP_PORT_RANGE", "5900-5800", 1);
    party_run(&p, 1, create, NULL, LIMIT);
    ok(strstr(p.guest[0].note, "such as 5800-5900") != NULL, "%s", p.guest[0].note);
    unsetenv("HOOP_BOOTSTRAP_TIMEOUT_MS");
    unsetenv("HOOP_PORT_RANGE");
}

/* --- a proxy before each rank --- */

typedef struct relay {
    proxy *x;
    int range;
} relay;

static int
through(int rank, int size, void *arg)
{
    relay *r = arg;
    set_range(r->range + rank, 1);
    proxy_stand_before(r->x, rank);
    return five(rank, size, NULL);
}

static void
test_proxy(void)
{
    relay r = {.x = proxy_open(), .range = party_ports(3)};
    ok(party_run(&p, 3, through, &r, LIMIT) == 0, "HOOP_ADVERTISE and one port: a proxy leads to all communicators");
    int used = 0;
    for (int k = 0; k < 3; k++)
        used += atomic_load(&r.x->door[k].passed[0]) > 0 && atomic_load(&r.x->door[k].target) == r.range + k;
    is_int(3, used, "and all connections went through it");
    proxy_close(r.x);
}

/* --- strangers --- */

enum { CROWD = 200, RANKS = 4, FEW = 72 };

/* Keeps `CROWD` silent connections to each port, from before anybody listens there; ends with the test. */
static pid_t
crowd_before(const int *ports, int n)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    static int fds[8][CROWD];
    char byte;
    memset(fds, -1, sizeof(fds));
    for (;;) {
        for (int k = 0; k < n; k++)
            for (int i = 0; i < CROWD; i++) {
                struct sockaddr_in sin = loopback(ports[k]);
                int *fd = &fds[k][i];
                if (*fd >= 0 && (recv(*fd, &byte, 1, MSG_DONTWAIT) >= 0 || errno != EAGAIN)) {
                    close(*fd);
                    *fd = -1;
                }
                if (*fd >= 0)
                    continue;
                *fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
                if (*fd >= 0)
                    connect(*fd, (struct sockaddr *)&sin, sizeof(sin));
            }
        usleep(20000);
    }
}

static void
end(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* Goes on for two seconds with few descriptors. */
static int
besieged(int rank, int size, void *arg)
{
    struct rlimit limit = {FEW, FEW};
    hoop_comm *comm = NULL, *half = NULL;
    double until = party_clock() + 2;
    int rounds = 0, go_on = 1, most = 0;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        return fail("create", NULL);
    while (go_on) {
        int now = count_descriptors(0);
        most = now > most ? now : most;
        if (adds_up(comm))
            return fail("sum", comm);
        go_on = rank == 0 && party_clock() < until;
        if (hoop_broadcast(&go_on, &go_on, 1, HOOP_INT32, 0, comm) != HOOP_SUCCESS)
            return fail("broadcast", comm);
        rounds++;
    }
    if (hoop_comm_split(comm, rank % 2, 0, &half) != HOOP_SUCCESS || adds_up(half))
        return fail("split", comm);
    party_note("%d rounds on %d ranks, at most %d descriptors", rounds, size, most);
    hoop_comm_destroy(half);
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* Pending connections crowd every port; ranks and server have few descriptors. */
static void
test_strangers(void)
{
    struct rlimit was, few;
    int ports[RANKS + 1], range = party_ports(RANKS);
    getrlimit(RLIMIT_NOFILE, &was);
    few = was;
    few.rlim_cur = FEW;
    party_close(&p);
    setrlimit(RLIMIT_NOFILE, &few);
    party_open(&p);
    was.rlim_cur = was.rlim_max < 4096 ? was.rlim_max : 4096;
    setrlimit(RLIMIT_NOFILE, &was);
    for (int k = 0; k < RANKS; k++)
        ports[k] = range + k;
    ports[RANKS] = (int)strtol(strrchr(p.address, ':') + 1, NULL, 10);
    set_range(range, RANKS);
    pid_t colocated = crowd_before(ports, RANKS + 1);
    usleep(200000);
    ok(party_run(&p, RANKS, besieged, NULL, LIMIT) == 0,
       "%d descriptors, %d silent strangers at every port: the job goes on to the right result", FEW, CROWD);
    diag("%s", p.guest[0].note);
    end(colocated);
    unsetenv("HOOP_PORT_RANGE");
    party_close(&p);
    party_open(&p);
}

/* --- replays --- */

enum { RECORDED = 3, COPIES = 1500, BIG = 8 };

static void
record(uint8_t m1[HP_M1], const hp_keys *keys, int role, int from, uint32_t to)
{
    uint8_t nonce[32] = {(uint8_t)from, (uint8_t)role};
    hp_hello hello = {.my_rank = (uint32_t)from, .your_rank = to, .world = BIG, .role = (uint8_t)role};
    hp_handshake handshake;
    memcpy(hello.job_id, keys->job_id, HP_JOB_ID_BYTES);
    hello.ver_min = HP_WIRE_MIN;
    hello.ver_max = HP_WIRE_MAX;
    hp_handshake_start(&handshake, keys, &hello, nonce, UINT64_MAX);
    memcpy(m1, handshake.m1, HP_M1);
}

/* Waits for what the server says to a greeting, if it says anything before it closes. */
static int
is_challenged(int fd)
{
    const struct timeval moment = {.tv_sec = 2};
    uint8_t m2[HP_M2];
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof(moment));
    return recv(fd, m2, sizeof(m2), MSG_WAITALL) == HP_M2;
}

/* Sends three greetings, which somebody may have recorded, to every port, again and again; leaves all open. */
static pid_t
replay_to(const int *ports, int n, atomic_int *challenges)
{
    static uint8_t m1[BIG + 1][RECORDED][HP_M1];
    uint8_t job_id[HP_JOB_ID_BYTES];
    hp_secret secret, own;
    hp_keys keys;
    hoop_error error;
    if (hp_secret_from_file(&secret, p.secret_file, &error) != HOOP_SUCCESS ||
        hp_job_id(job_id, "replay", &error) != HOOP_SUCCESS ||
        hp_secret_of_job(&own, &secret, job_id, &error) != HOOP_SUCCESS ||
        hp_keys_derive(&keys, own.key, job_id, HP_MODE_AUTH, &error) != HOOP_SUCCESS)
        bail("%s", error.text);
    for (int k = 0; k < n; k++)
        for (int i = 0; i < RECORDED; i++)
            record(m1[k][i], &keys, k == BIG ? HP_ROLE_CONTROL : HP_ROLE_DATA, (k + 1 + i) % BIG,
                   k == BIG ? HP_RANK_SERVER : (uint32_t)k);
    pid_t child = fork();
    if (child != 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int copies = 0;; copies++) {
        for (int k = 0; k < n && copies < COPIES; k++) {
            struct sockaddr_in sin = loopback(ports[k]);
            int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            if (connect(fd, (struct sockaddr *)&sin, sizeof(sin)) != 0 ||
                send(fd, m1[k][copies % RECORDED], HP_M1, MSG_NOSIGNAL) != HP_M1)
                close(fd);
            else if (k == BIG && copies < 2 * RECORDED)
                *challenges += is_challenged(fd);
        }
        if (copies % 10 == 0)
            usleep(1000);
    }
}

/* How long bring-up takes; the most descriptors that were seen meanwhile. */
static int
come_up(int rank, int size, void *arg)
{
    hoop_comm *comm = NULL;
    double begin = party_clock();
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        return fail("create", NULL);
    double took = party_clock() - begin;
    int bad = adds_up(comm);
    party_note("%.4f %d", took, count_descriptors(0));
    return bad || hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

static double
slowest(int *descriptors)
{
    double worst = 0;
    for (int i = 0; i < BIG; i++) {
        double took = 0;
        int fds = 0;
        sscanf(p.guest[i].note, "%lf %d", &took, &fds);
        worst = took > worst ? took : worst;
        *descriptors = fds > *descriptors ? fds : *descriptors;
    }
    return worst;
}

/* Recorded greetings are sent again and again to every port while a ring comes up. */
static void
test_replays(void)
{
    int ports[BIG + 1], range = party_ports(BIG), fds = 0, bad = 0;
    double usual = 0, with = 0;
    for (int k = 0; k < BIG; k++)
        ports[k] = range + k;
    ports[BIG] = (int)strtol(strrchr(p.address, ':') + 1, NULL, 10);
    setenv("HOOP_JOB", "replay", 1);
    set_range(range, BIG);
    for (int k = 0; k < 3; k++) {
        bad += party_run(&p, BIG, come_up, NULL, LIMIT);
        double took = slowest(&fds);
        usual = took > usual ? took : usual;
    }
    fds = 0;
    atomic_int *challenges = mmap(NULL, sizeof(*challenges), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = replay_to(ports, BIG + 1, challenges);
    for (int k = 0; k < 3; k++) {
        bad += party_run(&p, BIG, come_up, NULL, LIMIT);
        double took = slowest(&fds);
        with = k == 0 || took < with ? took : with;
    }
    end(child);
    is_int(0, bad, "%d ranks come up while %d greetings are sent %d times to every port", BIG, RECORDED, COPIES);
    is_int(RECORDED, atomic_load(challenges), "each greeting is answered once");
    munmap(challenges, sizeof(*challenges));
    ok(fds <= BIG + 64 + 256, "with at most %d descriptors a rank", fds);
    ok(with < 2 * usual + tap_room(), "in %.3f s, usually %.3f", with, usual);
    unsetenv("HOOP_PORT_RANGE");
    unsetenv("HOOP_JOB");
}

/* --- a fork --- */

/* The child of a rank lives on; the port must not. */
static int
forks(int rank, int size, void *arg)
{
    hoop_comm *comm = NULL;
    int port = 0, bad;
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        return fail("create", NULL);
    listening(&port);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        hoop_comm *mine = NULL;
        int seen, own = listening(&seen);
        unsetenv("HOOP_RENDEZVOUS");
        unsetenv("HOOP_SIZE");
        unsetenv("HOOP_RANK");
        bad = own != 0 || hoop_comm_destroy(comm) != HOOP_ERR_FORKED || hoop_comm_create(&mine, NULL) != HOOP_SUCCESS ||
              adds_up(mine) || hoop_comm_destroy(mine) != HOOP_SUCCESS;
        if (bad)
            _exit(1);
        for (;;)
            pause();
    }
    bad = adds_up(comm) || hoop_comm_destroy(comm) != HOOP_SUCCESS || !party_port_is_free(port) ||
          waitpid(child, NULL, WNOHANG) != 0;
    end(child);
    return bad;
}

/* --- mode none --- */

static int
bare(int rank, int size, void *arg)
{
    setenv("HOOP_SECURITY", "none", 1);
    setenv("HOOP_SOCKET_IFNAME", "10.77.0.0/16", 1);
    return create(rank, size, NULL);
}

static void
test_bare(void)
{
    const char *why;
    if (!own_network("10.77.0.1", &why)) {
        skip(1, "%s", why);
        return;
    }
    party_close(&p);
    party_open(&p);
    party_run(&p, 2, bare, NULL, LIMIT);
    const char *note = p.guest[0].note;
    ok(strtol(note, NULL, 10) == HOOP_ERR_AUTH && strstr(note, "loopback only") && strstr(note, "10.77.0.1"), "%s",
       note);
}

int
main(void)
{
    tap_limit(300);
    plan_lazy();
    party_open(&p);
    test_one_port();
    test_used_up();
    test_proxy();
    test_strangers();
    test_replays();
    ok(party_run(&p, 3, forks, NULL, LIMIT) == 0,
       "a child that a rank has forked does not keep its port, and may have its own");
    test_bare();
    party_close(&p);
    return 0;
}
