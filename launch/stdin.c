/* SPDX-License-Identifier: MIT */
/*
 * stdin: a window of bytes that were given and not yet taken. While it has room and poll says that there is input, one
 * piece is read and given. Files are always ready and never watched (epoll does not take them).
 */
#include "launch/stdin.h"

#include "base/clock.h"
#include "launch/xalloc.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

enum { WINDOW = 256 * 1024, PIECE = 64 * 1024 };

struct hp_stdin {
    hp_loop *loop;
    int fd, over, started;
    size_t out; /* given, not yet taken */
    hp_watch *watch;
    hp_timer *timer; /* looks whether we are in the foreground again: no event tells */
    hp_stdin_owner owner;
    uint8_t piece[PIECE];
};

/* Reads one piece if there is one; 1: there may be more. */
static int
read_some(hp_stdin *in)
{
    struct pollfd p = {.fd = in->fd, .events = POLLIN};
    if (poll(&p, 1, 0) <= 0)
        return 0;
    ssize_t n = read(in->fd, in->piece, sizeof(in->piece));
    if (n > 0) {
        in->out += (size_t)n;
        in->owner.bytes(in->owner.arg, in->piece, (size_t)n);
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
        in->over = 1;
        in->owner.end(in->owner.arg);
    }
    return n > 0;
}

static void
pump(void *arg)
{
    hp_stdin *in = arg;
    /* A background job of a terminal must not read from it: the kernel would stop the launcher. */
    pid_t foreground = isatty(in->fd) ? tcgetpgrp(in->fd) : -1; /* -1 too when it is not our terminal */
    int background = foreground >= 0 && foreground != getpgrp();
    hp_timer_set(in->timer, background && !in->over ? HP_SEC : HP_NEVER);
    while (!background && !in->over && in->out + PIECE <= WINDOW && read_some(in))
        continue;
    int interest = !background && !in->over && in->out + PIECE <= WINDOW ? HP_READ : 0;
    if (hp_watch_set(in->watch, interest) < 0 && !in->over) {
        in->over = 1;
        in->owner.end(in->owner.arg);
    }
}

static void
readable(void *arg, int ready)
{
    (void)ready;
    pump(arg);
}

hp_stdin *
hp_stdin_new(hp_loop *loop, int fd, const hp_stdin_owner *owner)
{
    hp_stdin *in = hp_xcalloc(1, sizeof(*in));
    in->loop = loop;
    in->fd = fd;
    in->owner = *owner;
    in->watch = hp_xcheck(hp_watch_new(loop, fd, readable, in));
    in->timer = hp_xcheck(hp_timer_new(loop, pump, in));
    return in;
}

void
hp_stdin_go(hp_stdin *in)
{
    in->started = 1;
    pump(in);
}

void
hp_stdin_taken(hp_stdin *in, size_t n)
{
    in->out -= n < in->out ? n : in->out;
    if (in->started)
        pump(in);
}

void
hp_stdin_free(hp_stdin *in)
{
    if (!in)
        return;
    hp_watch_free(in->watch);
    hp_timer_free(in->timer);
    free(in);
}
