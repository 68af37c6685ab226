/* SPDX-License-Identifier: MIT */
/*
 * limit_ring: the ceiling of a ring over TCP. Every rank pushes as many bytes as an allreduce moves, 2(P-1)/P times the
 * array's, to the next rank and takes as many from the previous one: one connection a neighbour, one thread, no
 * reduction, and no byte waits for another.
 *
 *   LIMIT_HOT=1      from and into a scratch of 256 KiB that stays in the cache, instead of the whole array
 *   LIMIT_SPLICE=1   sent without a copy: pages go into a pipe (vmsplice), from there to the socket (splice). Nothing
 *                    here tells when the receiver has taken them; a real protocol has to
 *
 * LIMIT_CC, BENCH_NET: see limit_socket.h.
 */
#include "bench.h"
#include "limit_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SCRATCH = 256 << 10, CALL = 1 << 20, PIPE = 1 << 20 };

typedef struct ring {
    int size;
    int out, in;
    int hot, splice;
    int pipe[2];
    size_t pipe_bytes;
    char *from, *into; /* the scratch */
} ring;

/* One operation's progress. The stream of `total` bytes goes round and round in a window of memory. */
typedef struct flow {
    const ring *r;
    char *from, *into;
    size_t window, total, sent, taken;
    size_t piped; /* spliced: bytes that went into the pipe */
} flow;

static size_t
least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Bytes that follow position `at` without a wrap. */
static size_t
run_length(const flow *f, size_t at)
{
    return least(least(f->window - at % f->window, f->total - at), CALL);
}

static ssize_t
push_pages(flow *f)
{
    const ring *r = f->r;
    while (f->piped < f->total && f->piped - f->sent < r->pipe_bytes) {
        struct iovec piece = {f->from + f->piped % f->window, run_length(f, f->piped)};
        ssize_t put = vmsplice(r->pipe[1], &piece, 1, SPLICE_F_NONBLOCK);
        if (put <= 0)
            break;
        f->piped += (size_t)put;
    }
    if (f->piped == f->sent) {
        errno = EAGAIN;
        return -1;
    }
    return splice(r->pipe[0], NULL, r->out, NULL, f->piped - f->sent,
                  SPLICE_F_NONBLOCK | (f->piped < f->total ? SPLICE_F_MORE : 0));
}

/* 1: bytes moved; 0: not now. */
static int
moved(ssize_t bytes, size_t *counter, const char *what)
{
    if (bytes < 0 && errno != EAGAIN)
        bench_die(what);
    if (bytes > 0)
        *counter += (size_t)bytes;
    return bytes > 0;
}

static int
push(flow *f)
{
    ssize_t bytes;
    if (f->sent == f->total)
        return 0;
    if (f->r->splice)
        bytes = push_pages(f);
    else
        bytes = send(f->r->out, f->from + f->sent % f->window, run_length(f, f->sent), MSG_DONTWAIT | MSG_NOSIGNAL);
    return moved(bytes, &f->sent, "cannot send");
}

static int
take(flow *f)
{
    ssize_t bytes;
    if (f->taken == f->total)
        return 0;
    bytes = recv(f->r->in, f->into + f->taken % f->window, run_length(f, f->taken), MSG_DONTWAIT);
    if (bytes == 0) {
        errno = 0;
        bench_die("the previous rank has gone");
    }
    return moved(bytes, &f->taken, "cannot receive");
}

static void
move_bytes(void *context, float *data, size_t count)
{
    const ring *r = context;
    size_t bytes = count * sizeof(*data), total = 2 * bytes / (size_t)r->size * (size_t)(r->size - 1);
    flow f = {.r = r, .from = (char *)data, .into = (char *)data, .window = bytes, .total = total ? total : 1};
    if (r->hot) {
        f.from = r->from;
        f.into = r->into;
        f.window = SCRATCH;
    }
    while (f.sent < f.total || f.taken < f.total) {
        int any = push(&f);
        any |= take(&f);
        if (!any) {
            struct pollfd fds[2] = {{r->out, f.sent < f.total ? POLLOUT : 0, 0},
                                    {r->in, f.taken < f.total ? POLLIN : 0, 0}};
            poll(fds, 2, 1000);
        }
    }
}

/* --- bring-up --- */

static void
connect_ring(ring *r, int rank)
{
    int listener = limit_listen(rank);
    bench_barrier();
    r->out = limit_dial((rank + 1) % r->size);
    r->in = limit_accept(listener);
    fcntl(r->out, F_SETFL, O_NONBLOCK); /* splice has no flag of its own for the socket's side */
    close(listener);
}

static char *
scratch(void)
{
    char *memory = aligned_alloc(4096, SCRATCH);
    if (!memory)
        bench_die("no memory");
    memset(memory, 1, SCRATCH);
    return memory;
}

int
main(void)
{
    ring r = {.hot = getenv("LIMIT_HOT") != NULL, .splice = getenv("LIMIT_SPLICE") != NULL};
    bench_peer peer = {.context = &r, .run = move_bytes, .moves_only = 1};
    int rank = bench_number("BENCH_RANK"), got, bad;
    r.size = bench_number("BENCH_RANKS");
    bench_join(rank, r.size);
    if (pipe2(r.pipe, O_NONBLOCK | O_CLOEXEC) != 0)
        bench_die("cannot make a pipe");
    got = fcntl(r.pipe[1], F_SETPIPE_SZ, PIPE);
    r.pipe_bytes = got > 0 ? (size_t)got : 65536;
    r.from = scratch();
    r.into = scratch();
    connect_ring(&r, rank);
    bad = bench_run(&peer);
    bench_barrier();
    free(r.from);
    free(r.into);
    return bad;
}
