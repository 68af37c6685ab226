/* SPDX-License-Identifier: MIT */
/*
 * pipe: sends pages to a socket without copying them: vmsplice(2) puts references into a pipe, splice(2) moves those
 * to the socket. TCP reads the pages later, so they must not change until the peer has acknowledged the bytes; the
 * caller sees to that.
 */
#ifndef HP_PIPE_H
#define HP_PIPE_H

#include <stddef.h>
#include <sys/types.h>

typedef struct hp_pipe {
    int in, out;   /* write end, read end; -1: not open */
    size_t room;   /* bytes it can hold */
    size_t inside; /* bytes in the pipe that are not in the socket yet */
} hp_pipe;

/* Returns 0, or -1 with errno: the pipes of an unprivileged user share a limit (/proc/sys/fs/pipe-user-pages-soft). */
int hp_pipe_open(hp_pipe *pipe, size_t room);
void hp_pipe_close(hp_pipe *pipe);

/*
 * Moves what the socket takes of the `left` bytes at data; the first pipe->inside of them are in the pipe already.
 * Returns how many bytes reached the socket, or -1 with errno (EAGAIN: the socket is full).
 */
ssize_t hp_pipe_send(hp_pipe *pipe, int fd, const void *data, size_t left);

#endif
