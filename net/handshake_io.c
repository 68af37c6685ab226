/* SPDX-License-Identifier: MIT */
/* handshake_io: see handshake_io.h. Shared by acceptor.c and dial.c; closes nothing. */
#include "net/handshake_io.h"

#include "net/loop.h"

#include <errno.h>
#include <sys/socket.h>

static int
send_some(hp_conn *conn, int fd)
{
    ssize_t n = send(fd, conn->out, conn->out_n, MSG_NOSIGNAL);
    if (n > 0)
        hp_conn_wrote(conn, (size_t)n);
    if (n > 0 || errno == EINTR)
        return HP_SHAKE_STOP;
    return errno == EAGAIN ? HP_WRITE : HP_SHAKE_LOST;
}

static int
receive_some(hp_conn *conn, int fd, uint64_t now)
{
    uint8_t bytes[HP_M1];
    size_t want = hp_conn_want(conn);
    ssize_t n = recv(fd, bytes, want < sizeof(bytes) ? want : sizeof(bytes), 0);
    if (n > 0)
        hp_conn_feed(conn, bytes, (size_t)n, now);
    if (n == 0)
        errno = 0;
    if (n > 0 || errno == EINTR)
        return HP_SHAKE_STOP;
    return errno == EAGAIN ? HP_READ : HP_SHAKE_LOST;
}

int
hp_shake(hp_conn *conn, int fd, uint64_t now)
{
    int step = HP_SHAKE_STOP;
    while (step == HP_SHAKE_STOP) {
        if (conn->out_n > 0)
            step = send_some(conn, fd);
        else if (hp_conn_want(conn) > 0)
            step = receive_some(conn, fd, now);
        else
            return HP_SHAKE_STOP;
    }
    return step;
}
