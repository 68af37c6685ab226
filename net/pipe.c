/* SPDX-License-Identifier: MIT */
/* pipe: see pipe.h. */
#include "net/pipe.h"

#include "net/sock.h"
#include "net/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>

int
hp_pipe_open(hp_pipe *pipe, size_t room)
{
    int ends[2], got;
    *pipe = (hp_pipe){.in = -1, .out = -1};
    if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0)
        return -1;
    pipe->out = hp_socket_raise(ends[0]);
    pipe->in = hp_socket_raise(ends[1]);
    if (pipe->out < 0 || pipe->in < 0) {
        hp_pipe_close(pipe);
        return -1;
    }
    (void)fcntl(pipe->in, F_SETPIPE_SZ, (int)room); /* if refused, the pipe keeps its 64 KiB, which is enough */
    got = fcntl(pipe->in, F_GETPIPE_SZ);
    pipe->room = got > 0 ? (size_t)got : 4096;
    return 0;
}

void
hp_pipe_close(hp_pipe *pipe)
{
    if (pipe->in >= 0)
        close(pipe->in);
    if (pipe->out >= 0)
        close(pipe->out);
    pipe->in = pipe->out = -1;
}

static int
fill(hp_pipe *pipe, const char *data, size_t left)
{
    while (pipe->inside < left && pipe->inside < pipe->room) {
        struct iovec iov = {(void *)(uintptr_t)(data + pipe->inside), left - pipe->inside};
        ssize_t n = vmsplice(pipe->in, &iov, 1, SPLICE_F_NONBLOCK);
        if (n <= 0)
            return pipe->inside > 0 || (n < 0 && errno == EAGAIN);
        pipe->inside += (size_t)n;
    }
    return 1;
}

/*
 * splice(2) has no MSG_NOSIGNAL: SIGPIPE is blocked meanwhile, and taken from the pending ones if this call raised
 * it.
 */
static ssize_t
splice_quietly(int from, int to, size_t bytes, unsigned flags)
{
    const struct timespec now = {0, 0};
    sigset_t sigpipe, old, before;
    ssize_t n;
    int number;
    sigemptyset(&sigpipe);
    sigaddset(&sigpipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &sigpipe, &old);
    sigpending(&before);
    n = splice(from, NULL, to, NULL, bytes, flags);
    number = errno;
    if (n < (ssize_t)bytes && !sigismember(&before, SIGPIPE)) /* a short count: pages were sent, then it broke */
        while (sigtimedwait(&sigpipe, NULL, &now) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = number;
    return n;
}

ssize_t
hp_pipe_send(hp_pipe *pipe, int fd, const void *data, size_t left)
{
    ssize_t n;
    if (!fill(pipe, data, left))
        return -1;
    n = splice_quietly(pipe->out, fd, pipe->inside, SPLICE_F_NONBLOCK | (pipe->inside < left ? SPLICE_F_MORE : 0));
    if (n > 0)
        pipe->inside -= (size_t)n;
    return n;
}
