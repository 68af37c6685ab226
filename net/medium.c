/* SPDX-License-Identifier: MIT */
/* medium: see medium.h. */
#include "net/medium.h"

#include "net/sock.h"
#include "net/socket.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { WAKE_BYTES = 128 << 10 };

void
hp_medium_begin(hp_medium *m, int fd)
{
    *m = (hp_medium){.fd = fd, .one_address = hp_sock_has_one_address(fd)};
}

void
hp_medium_end(hp_medium *m)
{
    hp_socket_close(m->fd);
    hp_shm_free(m->shm);
}

/* --- bytes --- */

/* A full ring, or an empty one, is as a connection that would block, until that has ended. */
ssize_t
hp_medium_write(hp_medium *m, const struct iovec *places, int n)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)places, .msg_iovlen = (size_t)n};
    if (m->shm) {
        ssize_t put = m->over ? 0 : hp_pipe_move(&m->shm->out, places, n);
        m->owes_wake |= put > 0 && hp_pipe_wakes_other(&m->shm->out);
        errno = put < 0 ? EBADMSG : !m->over ? EAGAIN : m->number ? m->number : EPIPE;
        return put > 0 ? put : -1;
    }
    if (n == 1)
        return send(m->fd, places[0].iov_base, places[0].iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sendmsg(m->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

ssize_t
hp_medium_read(hp_medium *m, const struct iovec *places, int n)
{
    struct msghdr message = {.msg_iov = (struct iovec *)(uintptr_t)places, .msg_iovlen = (size_t)n};
    if (m->shm) {
        ssize_t got = hp_pipe_move(&m->shm->in, places, n);
        m->owes_wake |= got > 0 && hp_pipe_wakes_other(&m->shm->in);
        errno = got < 0 ? EBADMSG : m->over ? m->number : EAGAIN;
        return got > 0 || (got == 0 && m->over && !m->number) ? got : -1;
    }
    if (n == 1)
        return recv(m->fd, places[0].iov_base, places[0].iov_len, MSG_DONTWAIT);
    return recvmsg(m->fd, &message, MSG_DONTWAIT);
}

int
hp_medium_has_bytes(hp_medium *m)
{
    return m->shm && (m->over || hp_pipe_left(&m->shm->in));
}

/* --- sleep --- */

/*
 * In the middle of a payload the thread need not wake for every packet: the sender's socket delivers the rest, the
 * end of the connection wakes it whatever is set, and the driver polls all links from time to time anyway.
 */
int
hp_medium_await(hp_medium *m, uint32_t n, uint32_t room)
{
    int ready = 0, wake_at = n < WAKE_BYTES ? (int)n : WAKE_BYTES;
    if (!m->shm) {
        if (n && wake_at != m->wake_at && (m->wake_at || wake_at > 1))
            (void)setsockopt(m->fd, SOL_SOCKET, SO_RCVLOWAT, &wake_at, sizeof(wake_at));
        m->wake_at = n ? wake_at : m->wake_at;
        return 0;
    }
    if (n)
        ready |= m->over || hp_pipe_await(&m->shm->in, n);
    if (room)
        ready |= hp_pipe_await(&m->shm->out, room);
    m->asked_wake |= n || room;
    return ready;
}

void
hp_medium_awake(hp_medium *m)
{
    if (m->asked_wake && m->shm->in.bytes)
        hp_pipe_awake(&m->shm->in);
    if (m->asked_wake && m->shm->out.bytes)
        hp_pipe_awake(&m->shm->out);
    m->asked_wake = 0;
}

void
hp_medium_delay_acks(const hp_medium *m)
{
    int off = 0;
    if (m->one_address && !m->shm)
        (void)setsockopt(m->fd, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof(off));
}

/* --- control frames --- */

enum { TICK_QUEUE = 4096 };

int
hp_control_add(hp_control *control, int fd, hp_frame_type type, const void *payload, size_t n)
{
    if (control->out_at > 0) { /* a peer may take a few bytes at a time and never all of them */
        control->out_n -= control->out_at;
        memmove(control->out, control->out + control->out_at, control->out_n);
        control->out_at = 0;
    }
    int queued = 0;
    if (type == HP_TICK && (hp_control_waits(control) || (ioctl(fd, SIOCOUTQ, &queued) == 0 && queued > TICK_QUEUE)))
        return 0;
    if (((type == HP_CREDIT || type == HP_ACK || type == HP_TAKEN) && control->out_n > HP_CONTROL_ROOM / 2) ||
        HP_CONTROL_ROOM - control->out_n < HP_COMMON_BYTES + n + 4)
        return 0;
    control->out_n += hp_frame_put_control(control->out + control->out_n, type, payload, n);
    return 1;
}

int
hp_control_write(hp_control *control, int fd)
{
    ssize_t n = send(fd, control->out + control->out_at, control->out_n - control->out_at, MSG_DONTWAIT | MSG_NOSIGNAL);
    int number = errno;
    if (n > 0)
        control->out_at += (size_t)n;
    if (control->out_at == control->out_n || (n < 0 && number != EAGAIN && number != EINTR))
        control->out_at = control->out_n = 0;
    return n < 0 && number == EAGAIN;
}
