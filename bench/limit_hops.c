/* SPDX-License-Identifier: MIT */
/*
 * limit_hops: what a small allreduce takes where each hop waits for the one before it. Recursive doubling and nothing else:
 * in hop k a rank sends its whole array to rank ^ 2^k, adds the array that comes from there, and goes on. log2(P) hops are
 * the fewest. No heads, no checks, one connection a pair, one thread; the ranks are a power of two. Large arrays take
 * fewer bytes in a ring: see limit_ring. LIMIT_CC, BENCH_NET: see limit_socket.h.
 */
#include "bench.h"
#include "limit_socket.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HOPS_MAX = 6, LOOKS = 200 }; /* looks, with a yield behind each, before a rank sleeps */

typedef struct cube {
    int rank, hops;
    int link[HOPS_MAX];
    float *came;
} cube;

static size_t
moved(ssize_t bytes, const char *what)
{
    if (bytes < 0 && errno != EAGAIN)
        bench_die(what);
    return bytes > 0 ? (size_t)bytes : 0;
}

/* Both ways at once. */
static void
exchange(int fd, const char *out, char *in, size_t bytes)
{
    size_t sent = 0, taken = 0;
    for (int looks = 0; sent < bytes || taken < bytes; looks++) {
        size_t before = sent + taken;
        if (sent < bytes)
            sent += moved(send(fd, out + sent, bytes - sent, MSG_DONTWAIT | MSG_NOSIGNAL), "cannot send");
        if (taken < bytes)
            taken += moved(recv(fd, in + taken, bytes - taken, MSG_DONTWAIT), "cannot receive");
        if (sent + taken > before) {
            looks = 0;
        } else if (looks < LOOKS) {
            sched_yield();
        } else {
            struct pollfd wait = {fd, (short)((sent < bytes ? POLLOUT : 0) | (taken < bytes ? POLLIN : 0)), 0};
            poll(&wait, 1, 1000);
            looks = 0;
        }
    }
}

static void
prepare(void *context, float *data, size_t count)
{
    cube *c = context;
    (void)data;
    free(c->came);
    c->came = malloc(count * sizeof(float));
    if (!c->came)
        bench_die("no memory");
}

static void
allreduce(void *context, float *data, size_t count)
{
    const cube *c = context;
    for (int k = 0; k < c->hops; k++) {
        exchange(c->link[k], (const char *)data, (char *)c->came, count * sizeof(float));
        for (size_t i = 0; i < count; i++)
            data[i] += c->came[i];
    }
}

/* The lower rank of a pair dials, and says which hop the connection is for. */
static void
connect_cube(cube *c)
{
    int listener = limit_listen(c->rank), awaited = 0;
    bench_barrier();
    for (int k = 0; k < c->hops; k++) {
        int partner = c->rank ^ (1 << k);
        char hop = (char)k;
        awaited += partner < c->rank;
        if (partner < c->rank)
            continue;
        c->link[k] = limit_dial(partner);
        if (write(c->link[k], &hop, 1) != 1)
            bench_die("cannot greet another rank");
    }
    for (; awaited > 0; awaited--) {
        int fd = limit_accept(listener);
        char hop = -1;
        if (read(fd, &hop, 1) != 1 || hop < 0 || hop >= c->hops)
            bench_die("another rank has gone");
        c->link[(int)hop] = fd;
    }
    close(listener);
}

int
main(void)
{
    cube c = {.rank = bench_number("BENCH_RANK")};
    bench_peer peer = {.context = &c, .prepare = prepare, .run = allreduce};
    int size = bench_number("BENCH_RANKS"), bad;
    bench_join(c.rank, size);
    while (1 << c.hops < size && c.hops < HOPS_MAX)
        c.hops++;
    if (1 << c.hops != size) {
        errno = 0;
        bench_die("limit_hops needs 2, 4, 8, 16, 32 or 64 ranks");
    }
    connect_cube(&c);
    bad = bench_run(&peer);
    bench_barrier();
    free(c.came);
    return bad;
}
