/* SPDX-License-Identifier: MIT */
/*
 * Bring-up that cannot succeed says why, to everyone, in time; and jobs on one server never meet. Also what hundreds of
 * ranks need, and how many bytes an allreduce really sends.
 */
#include "hoop.h"
#include "t/tap/tap.h"
#include "t/tools/descriptors.h"
#include "t/tools/network.h"
#include "t/tools/party.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static party p;

typedef struct role {
    int odd;          /* the rank that does something else */
    const char *name; /* the environment variable it changes, or NULL: it never comes */
    const char *value;
} role;

/* Creates, does one operation, tells the result and the sentence. */
static int
come(int rank, int size, void *arg)
{
    const role *r = arg;
    hoop_comm *comm = NULL;
    hoop_error e = {.size = sizeof(e)};
    int32_t one = 1, sum = 0;
    double begin = party_clock();
    if (rank == r->odd && !r->name)
        return 0;
    if (rank == r->odd)
        setenv(r->name, r->value, 1);
    hoop_result result = hoop_comm_create(&comm, NULL);
    hoop_comm_error(NULL, &e);
    if (result == HOOP_SUCCESS)
        result = hoop_allreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, comm);
    if (result == HOOP_SUCCESS && sum != size)
        result = HOOP_ERR_INTERNAL;
    party_note("%d %.2f %d %s", (int)result, party_clock() - begin, e.rank, e.text);
    hoop_comm_destroy(comm);
    return 0;
}

static int
code_of(int rank)
{
    return (int)strtol(p.guest[rank].note, NULL, 10);
}

static double
seconds_of(int rank)
{
    double s = -1;
    sscanf(p.guest[rank].note, "%*d %lf", &s);
    return s;
}

static void
show(int ranks)
{
    for (int i = 0; i < ranks; i++)
        diag("rank %d: %s", i, p.guest[i].note);
}

static void
missing(void)
{
    role r = {.odd = 2};
    int good = 1;
    setenv("HOOP_BOOTSTRAP_TIMEOUT_MS", "6000", 1);
    party_run(&p, 5, come, &r, 90);
    for (int i = 0; i < 5; i++)
        good &= i == 2 || (code_of(i) == HOOP_ERR_RENDEZVOUS && seconds_of(i) > 5.0 &&
                           seconds_of(i) < 7.1 + tap_room() && strstr(p.guest[i].note, "rank 2 of 5"));
    if (!good)
        show(5);
    ok(good, "a rank never comes: the others name exactly it at the time-out");
    diag("%s", p.guest[0].note);
    unsetenv("HOOP_BOOTSTRAP_TIMEOUT_MS");
}

static void
differs(const char *name, const char *value, int code, const char *word, const char *what)
{
    role r = {1, name, value};
    int good = 1, told = 0;
    setenv("HOOP_BOOTSTRAP_TIMEOUT_MS", "60000", 1);
    party_run(&p, 3, come, &r, 90);
    for (int i = 0; i < 3; i++) {
        good &= code_of(i) == code;
        told += strstr(p.guest[i].note, word) != NULL;
    }
    if (!good || told < 2)
        show(3);
    ok(good && told >= 2, "%s: every rank gets the reason", what);
    unsetenv("HOOP_BOOTSTRAP_TIMEOUT_MS");
}

static void
duplicate(void)
{
    role r = {2, "HOOP_RANK", "1"};
    int dup = 0, waited = 0;
    setenv("HOOP_BOOTSTRAP_TIMEOUT_MS", "8000", 1);
    party_run(&p, 3, come, &r, 90);
    for (int i = 1; i < 3; i++)
        dup += strstr(p.guest[i].note, "already") && code_of(i) == HOOP_ERR_RENDEZVOUS;
    for (int i = 0; i < 3; i++)
        waited += strstr(p.guest[i].note, "rank 2 of 3") != NULL;
    if (dup != 1 || waited != 2)
        show(3);
    ok(dup == 1 && waited == 2, "two ranks of one number: the second is told so, the first waits on unharmed");
    unsetenv("HOOP_BOOTSTRAP_TIMEOUT_MS");
}

static const char *
secret(const char *name, const char *text, int mode)
{
    static char path[400];
    int fd;
    snprintf(path, sizeof(path), "%s/%s", tap_tmpdir(), name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text, strlen(text)) < 0 || fchmod(fd, (mode_t)mode) != 0)
        bail("cannot write %s", path);
    close(fd);
    return path;
}

static void
one_bad_secret(const char *path, const char *limit_ms, const char *word, const char *what)
{
    role r = {0, "HOOP_SECRET_FILE", path};
    int good;
    setenv("HOOP_BOOTSTRAP_TIMEOUT_MS", limit_ms, 1);
    party_run(&p, 1, come, &r, 90);
    good = code_of(0) == HOOP_ERR_AUTH && strstr(p.guest[0].note, word) && seconds_of(0) < 3.0 + tap_room();
    if (!good)
        show(1);
    ok(good, "%s: AUTH after %.1f s", what, seconds_of(0));
    unsetenv("HOOP_BOOTSTRAP_TIMEOUT_MS");
}

static void
secrets(void)
{
    char other[66], link[400];
    memset(other, 'a', 64);
    memcpy(other + 64, "\n", 2);
    one_bad_secret(secret("other", other, 0600), "1500", "this rank's secret is that of HOOP_SECRET_FILE=/",
                   "a wrong secret");
    one_bad_secret(secret("open", other, 0644), "60000", "chmod", "a secret file that others may read");
    one_bad_secret(secret("empty", "", 0600), "60000", "empty", "an empty secret file");
    one_bad_secret("/nowhere/secret", "60000", "/nowhere/secret", "no such file");
    snprintf(link, sizeof(link), "%s/link", tap_tmpdir());
    if (symlink(secret("other", other, 0600), link) != 0)
        bail("no symlink");
    one_bad_secret(link, "60000", "link", "a symbolic link");
}

/* Two jobs at once on one server: ranks of both interleave. */
static int
two_jobs(int rank, int size, void *arg)
{
    hoop_comm *comm;
    int32_t mine = rank % 2 ? 100 : 1, sum = 0;
    char text[16];
    int half = size / 2;
    setenv("HOOP_JOB", rank % 2 ? "odd" : "even", 1);
    snprintf(text, sizeof(text), "%d", rank / 2);
    setenv("HOOP_RANK", text, 1);
    snprintf(text, sizeof(text), "%d", half);
    setenv("HOOP_SIZE", text, 1);
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        return 1;
    for (int i = 0; i < 20; i++)
        if (hoop_allreduce(&mine, &sum, 1, HOOP_INT32, HOOP_SUM, comm) != HOOP_SUCCESS || sum != mine * half)
            return 2;
    if (rank == 0) /* a death in one job does not touch the other */
        _exit(0);
    hoop_result r = HOOP_SUCCESS;
    usleep(300000);
    for (int i = 0; i < 20 && r == HOOP_SUCCESS; i++)
        r = hoop_allreduce(&mine, &sum, 1, HOOP_INT32, HOOP_SUM, comm);
    hoop_comm_destroy(comm);
    return rank % 2 ? r != HOOP_SUCCESS : r != HOOP_ERR_PEER_LOST;
}

/* --- many ranks --- */

static int
colocated(int rank, int size, void *arg)
{
    enum { N = 5000 };
    hoop_comm *comm;
    hoop_error e = {.size = sizeof(e)};
    static int32_t in[N], out[N];
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS) {
        hoop_comm_error(NULL, &e);
        party_note("%s", e.text);
        return 1;
    }
    for (int i = 0; i < N; i++)
        in[i] = rank + i;
    if (hoop_allreduce(in, out, N, HOOP_INT32, HOOP_SUM, comm) != HOOP_SUCCESS) {
        hoop_comm_error(comm, &e);
        party_note("%s", e.text);
        return 2;
    }
    for (int i = 0; i < N; i++)
        if (out[i] != size * (size - 1) / 2 + size * i)
            return 3;
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

/* --- bytes and descriptors --- */

static unsigned long long
loopback_bytes(void)
{
    FILE *file = fopen("/proc/self/net/dev", "re");
    char line[512];
    unsigned long long bytes = 0;
    while (file && fgets(line, sizeof(line), file)) {
        char *lo = strstr(line, "lo:");
        if (lo)
            sscanf(lo + 3, "%llu", &bytes);
    }
    if (file)
        fclose(file);
    return bytes;
}

enum { WIRE_COUNT = 4 << 20, WIRE_ROUNDS = 5 };

static int
wire(int rank, int size, void *arg)
{
    hoop_comm *comm;
    float *x = calloc(WIRE_COUNT, sizeof(*x));
    unsigned long long before = 0;
    setenv("HOOP_SHM", arg, 1);
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        return 1;
    before = loopback_bytes(); /* the others cannot have begun before rank 0 enters the barrier */
    if (hoop_barrier(comm) != HOOP_SUCCESS)
        return 1;
    for (int i = 0; i < WIRE_ROUNDS; i++)
        if (hoop_allreduce(x, x, WIRE_COUNT, HOOP_FLOAT32, HOOP_SUM, comm) != HOOP_SUCCESS)
            return 2;
    hoop_barrier(comm);
    if (rank == 0)
        party_note("%llu", loopback_bytes() - before);
    free(x);
    return hoop_comm_destroy(comm) != HOOP_SUCCESS;
}

static int
again(int rank, int size, void *arg)
{
    int fds = 0;
    for (int i = 0; i < 30; i++) {
        hoop_comm *comm;
        char job[32];
        int32_t one = 1, sum = 0;
        snprintf(job, sizeof(job), "again-%d-%d", (int)getppid(), i);
        setenv("HOOP_JOB", job, 1);
        if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS ||
            hoop_allreduce(&one, &sum, 1, HOOP_INT32, HOOP_SUM, comm) != HOOP_SUCCESS || sum != size ||
            hoop_comm_destroy(comm) != HOOP_SUCCESS)
            return 1;
        if (i == 0)
            fds = count_descriptors(0);
    }
    return count_descriptors(0) != fds;
}

/* Up to eight ranks of one host have their chords from the start. */
static int
first_operation(int rank, int size, void *arg)
{
    hoop_comm *comm;
    float values[4096] = {1};
    if (hoop_comm_create(&comm, NULL) != HOOP_SUCCESS)
        return 1;
    int before = count_sockets();
    int bad =
        hoop_allreduce(values, values, 1, HOOP_FLOAT32, HOOP_SUM, comm) != HOOP_SUCCESS || values[0] != (float)size;
    bad = bad || hoop_barrier(comm) != HOOP_SUCCESS ||
          hoop_broadcast(values, values, 7, HOOP_FLOAT32, 0, comm) != HOOP_SUCCESS ||
          hoop_allreduce(values, values, 4096, HOOP_FLOAT32, HOOP_MAX, comm) != HOOP_SUCCESS;
    party_note("%d sockets, then %d", before, count_sockets());
    bad = bad || count_sockets() != before;
    return hoop_comm_destroy(comm) != HOOP_SUCCESS || bad;
}

static int lines;

static void
count_line(void *arg, int level, const char *line)
{
    (void)arg;
    (void)level;
    if (lines++ == 0)
        party_note("%s", line);
}

/* Each neighbour makes 128 connections at once. */
static int
wide(int rank, int size, void *arg)
{
    setenv("HOOP_CHANNELS", "8", 1);
    setenv("HOOP_STRIPES", "16", 1);
    setenv("HOOP_SHM", "0", 1);
    hoop_log_to(count_line, NULL);
    hoop_comm *part = NULL, *comm = party_join(1);
    int bad = hoop_comm_split(comm, 0, rank, &part) != HOOP_SUCCESS || hoop_comm_destroy(part) != HOOP_SUCCESS;
    return hoop_comm_destroy(comm) != HOOP_SUCCESS || bad || lines;
}

/* With too few descriptors the error names the limit, not a wrong secret. */
static int
poor(int rank, int size, void *arg)
{
    struct rlimit limit = {14, 14};
    hoop_comm *comm = NULL;
    hoop_error e = {.size = sizeof(e)};
    hoop_result r;
    if (rank == 1)
        setrlimit(RLIMIT_NOFILE, &limit);
    r = hoop_comm_create(&comm, NULL);
    hoop_comm_error(NULL, &e);
    party_note("%d %s", (int)r, e.text);
    hoop_comm_destroy(comm);
    return 0;
}

static void
poverty(void)
{
    int good = 1;
    setenv("HOOP_BOOTSTRAP_TIMEOUT_MS", "60000", 1);
    party_run(&p, 4, poor, NULL, 90);
    for (int i = 0; i < 4; i++)
        good &= code_of(i) == HOOP_SUCCESS || (code_of(i) != HOOP_ERR_AUTH && strstr(p.guest[i].note, "ulimit -n"));
    if (!good)
        show(4);
    ok(good, "a rank with 14 descriptors: all hear of the limit");
    unsetenv("HOOP_BOOTSTRAP_TIMEOUT_MS");
}

static void
measure_wire(void)
{
    double ideal = 2.0 * WIRE_COUNT * 4 * 3 * WIRE_ROUNDS, seen; /* all four ranks together */
    char zero[] = "0", one[] = "1";
    const char *why;
    if (!own_network(NULL, &why)) {
        skip(4, "other programs' bytes would count too: %s", why);
        return;
    }
    party_close(&p);
    party_open(&p);
    ok(party_run(&p, 4, wire, zero, 60) == 0, "allreduces of 16 MiB on 4 ranks, over TCP");
    seen = strtod(p.guest[0].note, NULL);
    diag("wire: %.0f bytes for an ideal of %.0f: %.3f %% more", seen, ideal, 100 * (seen / ideal - 1));
    ok(seen >= ideal && seen < 1.015 * ideal, "bytes on the wire: 2N(n-1)/n a rank, headers and payload within 1.5 %%");
    ok(party_run(&p, 4, wire, one, 60) == 0, "the same through memory");
    seen = strtod(p.guest[0].note, NULL);
    ok(seen < 0.01 * ideal, "%.0f bytes on the wire: wake-ups, reports", seen);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    party_open(&p);
    missing();
    differs("HOOP_SIZE", "4", HOOP_ERR_MISMATCH, "size", "another world size");
    differs("HOOP_SLICES", "2", HOOP_ERR_MISMATCH, "slices", "another setting");
    duplicate();
    secrets();
    ok(party_run(&p, 8, two_jobs, NULL, 90) == 0,
       "two jobs interleaved on one server; one dies, the other does not notice");
    ok(party_run(&p, 3, again, NULL, 60) == 0, "thirty times create and destroy: no descriptor is left");
    for (int size = 2; size <= 8; size++) {
        int failed = party_run(&p, size, first_operation, NULL, 60);
        ok(failed == 0, "the first operations of %d ranks make no connection: %s", size, p.guest[0].note);
    }
    int loud = party_run(&p, 3, wide, NULL, 60);
    ok(loud == 0, "eight channels of sixteen stripes: no rank complains%s", loud ? p.guest[0].note : "");
    poverty();
    ok(party_run(&p, 200, colocated, NULL, 100) == 0, "200 ranks meet and allreduce");
    measure_wire();
    party_close(&p);
    return 0;
}
