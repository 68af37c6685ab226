/* SPDX-License-Identifier: MIT */
/*
 * input: a window of bytes given and not yet taken; while it is open and poll says there is something, one piece is
 * read and given. Files are always ready and never watched (epoll does not know them).
 */
#include "launch/stdin.h"

#include "base/clock.h"
#include "launch/xalloc.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

enum { WINDOW = 256 * 1024, PIECE = 64 * 1024 };

struct hp_input {
    hp_loop *loop;
    int fd, over, started;
    size_t out; /* given, not yet taken */
    hp_watch *watch;
    hp_timer *timer; /* looks whether we have come to the foreground: nobody tells */
    hp_input_owner owner;
};

/* Reads one piece if there is one; 1 when it is worth asking again. */
static int
read_some(hp_input *input)
{
    static uint8_t piece[PIECE];
    struct pollfd p = {.fd = input->fd, .events = POLLIN};
    ssize_t n;
    if (poll(&p, 1, 0) <= 0)
        return 0;
    n = read(input->fd, piece, sizeof(piece));
    if (n > 0) {
        input->out += (size_t)n;
        input->owner.bytes(input->owner.arg, piece, (size_t)n);
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
        input->over = 1;
        input->owner.end(input->owner.arg);
    }
    return n > 0;
}

/* A background job of a terminal must not read from it: the kernel would stop the launcher. */
static int
in_background(const hp_input *input)
{
    pid_t foreground = isatty(input->fd) ? tcgetpgrp(input->fd) : -1; /* -1 too when it is not our terminal */
    return foreground >= 0 && foreground != getpgrp();
}

static void
pump(hp_input *input)
{
    int background = in_background(input);
    int interest;
    hp_timer_set(input->timer, background && !input->over ? HP_SEC : HP_NEVER);
    while (!background && !input->over && input->out + PIECE <= WINDOW && read_some(input))
        continue;
    interest = !background && !input->over && input->out + PIECE <= WINDOW ? HP_READ : 0;
    if (hp_watch_set(input->watch, interest) < 0 && !input->over) {
        input->over = 1;
        input->owner.end(input->owner.arg);
    }
}

static void
readable(void *arg, int ready)
{
    (void)ready;
    pump(arg);
}

static void
look_again(void *arg)
{
    pump(arg);
}

hp_input *
hp_input_new(hp_loop *loop, int fd, const hp_input_owner *owner)
{
    hp_input *input = hp_must_alloc(1, sizeof(*input));
    *input = (hp_input){.loop = loop, .fd = fd, .owner = *owner};
    input->watch = hp_must(hp_watch_new(loop, fd, readable, input));
    input->timer = hp_must(hp_timer_new(loop, look_again, input));
    return input;
}

void
hp_input_go(hp_input *input)
{
    input->started = 1;
    pump(input);
}

void
hp_input_taken(hp_input *input, size_t n)
{
    input->out -= n < input->out ? n : input->out;
    if (input->started)
        pump(input);
}

void
hp_input_free(hp_input *input)
{
    if (!input)
        return;
    hp_watch_free(input->watch);
    hp_timer_free(input->timer);
    free(input);
}
