/* SPDX-License-Identifier: MIT */
/*
 * streams: see streams.h. The user of a queue bounds it: it stops reading its own source while the queue is long. Standard
 * input is a window of bytes that were given and not yet taken: while it has room and poll says that there is input, one
 * piece is read and given. Files are always ready and never watched (epoll does not take them).
 */
#include "launch/streams.h"

#include "base/clock.h"
#include "launch/xalloc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { WINDOW = 256 * 1024, PIECE = 64 * 1024 };

/* --- into a pipe --- */

static void
writable(void *arg, int ready)
{
    (void)ready;
    hp_write_queue_push(arg);
}

int
hp_write_queue_open(hp_write_queue *queue, hp_loop *loop, int fd)
{
    int flags = fcntl(fd, F_GETFL);
    *queue = (hp_write_queue){.fd = fd};
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return -1;
    queue->watch = hp_watch_new(loop, fd, writable, queue);
    return !queue->watch ? -1 : 0;
}

void
hp_write_queue_push(hp_write_queue *queue)
{
    size_t size;
    while ((size = hp_buffer_size(&queue->buffer)) > 0 && queue->broken == 0) {
        ssize_t n = write(queue->fd, hp_buffer_first(&queue->buffer), size);
        if (n > 0)
            hp_buffer_drop(&queue->buffer, (size_t)n);
        else if (errno == EAGAIN)
            break;
        else if (errno != EINTR)
            queue->broken = errno;
    }
    if (queue->broken)
        hp_buffer_drop(&queue->buffer, size);
    if (queue->watch && hp_watch_set(queue->watch, hp_buffer_size(&queue->buffer) ? HP_WRITE : 0) < 0)
        queue->broken = errno;
}

void
hp_write_queue_close(hp_write_queue *queue)
{
    hp_watch_free(queue->watch);
    queue->watch = NULL;
    hp_buffer_free(&queue->buffer);
}

/* --- signals --- */

/* The turn of the loop ends, and the owner takes the signal. */
static void
signalled(void *arg, int ready)
{
    (void)arg;
    (void)ready;
}

int
hp_signals_open(hp_signals *signals, hp_loop *loop, const int *numbers)
{
    sigset_t set;
    struct sigaction old;
    *signals = (hp_signals){0};
    sigemptyset(&set);
    for (; *numbers != 0; numbers++) {
        /* SIGHUP is ignored under nohup, SIGTSTP under a shell without job control: they stay so. */
        if ((*numbers == SIGHUP || *numbers == SIGTSTP) && sigaction(*numbers, NULL, &old) == 0 &&
            old.sa_handler == SIG_IGN)
            continue;
        signal(*numbers, SIG_DFL);
        sigaddset(&set, *numbers);
    }
    sigprocmask(SIG_BLOCK, &set, NULL);
    signals->fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (signals->fd < 0)
        return -1;
    signals->watch = hp_watch_new(loop, signals->fd, signalled, signals);
    return !signals->watch ? -1 : hp_watch_set(signals->watch, HP_READ);
}

int
hp_signals_next(hp_signals *signals)
{
    struct signalfd_siginfo info;
    if (read(signals->fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return 0;
    signals->by_terminal = info.ssi_code == SI_KERNEL;
    return (int)info.ssi_signo;
}

void
hp_signals_stop(const hp_signals *signals)
{
    sigset_t set;
    if (!signals->by_terminal) {
        kill(getpid(), SIGSTOP);
        return;
    }
    sigemptyset(&set);
    sigaddset(&set, SIGTSTP);
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

void
hp_signals_close(hp_signals *signals)
{
    if (!signals->watch)
        return;
    hp_watch_free(signals->watch);
    close(signals->fd);
    signals->watch = NULL;
}

/* --- standard input --- */

struct hp_stdin {
    int fd, over, started, error;
    size_t out; /* given, not yet taken */
    hp_watch *watch;
    hp_timer *timer; /* looks whether we are in the foreground again: no event tells */
    uint8_t piece[PIECE];
};

static void
readable(void *arg, int ready)
{
    (void)ready;
    hp_watch_set(((hp_stdin *)arg)->watch, 0);
}

static void
look_again(void *arg)
{
    (void)arg;
}

hp_stdin *
hp_stdin_new(hp_loop *loop, int fd)
{
    hp_stdin *in = hp_xcalloc(1, sizeof(*in));
    in->fd = fd;
    in->watch = hp_xcheck(hp_watch_new(loop, fd, readable, in));
    in->timer = hp_xcheck(hp_timer_new(loop, look_again, in));
    return in;
}

void
hp_stdin_go(hp_stdin *in)
{
    in->started = 1;
}

ssize_t
hp_stdin_read(hp_stdin *in, const uint8_t **bytes)
{
    if (!in->started || in->over)
        return 0;
    /* A background job of a terminal must not read from it: the kernel would stop the launcher. */
    pid_t foreground = isatty(in->fd) ? tcgetpgrp(in->fd) : -1; /* -1 too when it is not our terminal */
    int background = foreground >= 0 && foreground != getpgrp(), wanted = !background && in->out + PIECE <= WINDOW;
    struct pollfd p = {.fd = in->fd, .events = POLLIN};
    hp_timer_set(in->timer, background ? HP_SEC : HP_NEVER);
    if (wanted && poll(&p, 1, 0) > 0) {
        ssize_t n = read(in->fd, in->piece, sizeof(in->piece));
        if (n > 0) {
            in->out += (size_t)n;
            *bytes = in->piece;
            return n;
        }
        in->over = n == 0 || (errno != EINTR && errno != EAGAIN);
        in->error = n < 0 && in->over && errno != EBADF ? errno : 0; /* nohup(1) opens /dev/null for writing only */
    }
    if (hp_watch_set(in->watch, wanted && !in->over ? HP_READ : 0) < 0)
        in->over = 1;
    return in->over ? -1 : 0;
}

void
hp_stdin_taken(hp_stdin *in, size_t n)
{
    in->out -= n < in->out ? n : in->out;
}

int
hp_stdin_error(const hp_stdin *in)
{
    return in->error;
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
