/* SPDX-License-Identifier: MIT */
/* handshake_io: see handshake_io.h. The acceptor and dial share it; it closes nothing. */
#include "net/handshake_io.h"

#include "net/loop.h"

#include <errno.h>
#include <sys/socket.h>

static int
send_some(hp_handshake *handshake, int fd)
{
    ssize_t n = send(fd, handshake->out, handshake->out_n, MSG_NOSIGNAL);
    if (n > 0)
        hp_handshake_wrote(handshake, (size_t)n);
    if (n > 0 || errno == EINTR)
        return HP_HANDSHAKE_IO_STOP;
    return errno == EAGAIN ? HP_WRITE : HP_HANDSHAKE_IO_LOST;
}

static int
receive_some(hp_handshake *handshake, int fd, uint64_t now)
{
    uint8_t bytes[HP_M1];
    size_t want = hp_handshake_want(handshake);
    ssize_t n = recv(fd, bytes, want < sizeof(bytes) ? want : sizeof(bytes), 0);
    if (n > 0)
        hp_handshake_feed(handshake, bytes, (size_t)n, now);
    if (n == 0)
        errno = 0;
    if (n > 0 || errno == EINTR)
        return HP_HANDSHAKE_IO_STOP;
    return errno == EAGAIN ? HP_READ : HP_HANDSHAKE_IO_LOST;
}

int
hp_handshake_io(hp_handshake *handshake, int fd, uint64_t now)
{
    int step = HP_HANDSHAKE_IO_STOP;
    while (step == HP_HANDSHAKE_IO_STOP) {
        if (handshake->out_n > 0)
            step = send_some(handshake, fd);
        else if (hp_handshake_want(handshake) > 0)
            step = receive_some(handshake, fd, now);
        else
            return HP_HANDSHAKE_IO_STOP;
    }
    return step;
}
