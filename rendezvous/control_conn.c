/* SPDX-License-Identifier: MIT */
/*
 * control_conn: see control_conn.h. If nothing is queued a frame is written at once, so that a verdict does not wait
 * for the loop. The next read reports a write that failed. Each event reads at most 64 KiB.
 */
#include "rendezvous/control_conn.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "net/sock.h"
#include "net/socket.h"
#include "net/tcp.h"

#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum { READ_BYTES = 16 << 10, READS_PER_EVENT = 4 };

struct hp_control_conn {
    hp_loop *loop;
    int fd;
    hp_watch *watch;
    hp_control_conn_owner owner;
    int shut, shut_done, ended;
    int broke; /* errno of a failed write, which the next read would not return; 0: none */
    hp_buffer queue;
    uint64_t moved;
    hp_frame_reader reader;
    hp_tcp_silence silence;
    uint64_t peer_timeout; /* as it was last set */
};

static void on_ready(void *arg, int ready);

hp_control_conn *
hp_control_conn_new(hp_loop *loop, int fd, const hp_control_conn_owner *owner)
{
    hp_control_conn *control = hp_alloc(1, sizeof(*control));
    if (!control)
        return NULL;
    control->loop = loop;
    control->fd = fd;
    control->owner = *owner;
    control->watch = hp_watch_new(loop, fd, on_ready, control);
    if (!control->watch || hp_watch_set(control->watch, HP_READ)) {
        hp_watch_free(control->watch);
        free(control);
        return NULL;
    }
    return control;
}

size_t
hp_control_conn_queued(const hp_control_conn *control)
{
    return hp_buffer_size(&control->queue);
}

int
hp_control_conn_arrived(const hp_control_conn *control)
{
    int waits = 0;
    return !hp_buffer_size(&control->queue) && (ioctl(control->fd, SIOCOUTQ, &waits) < 0 || waits == 0);
}

uint64_t
hp_control_conn_blocked_since(const hp_control_conn *control)
{
    return hp_buffer_size(&control->queue) ? control->moved : HP_NEVER;
}

uint64_t
hp_control_conn_silence(hp_control_conn *control, uint64_t now)
{
    hp_tcp_look look = control->ended ? (hp_tcp_look){0} : hp_tcp_look_at(control->fd);
    hp_tcp_silence_note(&control->silence, &look, now);
    return hp_tcp_silence_lasts(&control->silence, now);
}

int
hp_control_conn_is_heard(const hp_control_conn *control, uint64_t within)
{
    return !control->ended && hp_tcp_is_heard(control->fd, within);
}

int
hp_control_conn_is_owed(const hp_control_conn *control, int *again)
{
    hp_tcp_look look = hp_tcp_look_at(control->fd);
    *again = !control->ended && look.unacked && look.resent;
    return !control->ended && (hp_buffer_size(&control->queue) || look.unacked);
}

void
hp_control_conn_await_peer(hp_control_conn *control, uint64_t peer_timeout)
{
    if (control->peer_timeout != peer_timeout)
        hp_sock_await_peer(control->fd, peer_timeout, NULL);
    control->peer_timeout = peer_timeout;
}

static void
write_some(hp_control_conn *control)
{
    size_t left;
    while ((left = hp_buffer_size(&control->queue)) && !control->ended) {
        ssize_t n = send(control->fd, hp_buffer_first(&control->queue), left, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (n < 0 && errno != EPIPE && !control->broke) /* EPIPE: the peer had closed before */
            control->broke = errno;
        hp_buffer_drop(&control->queue, n < 0 ? left : (size_t)n); /* an error is reported by the next read */
        if (n >= 0)
            control->moved = hp_loop_now(control->loop);
    }
    if (!left && control->shut && !control->shut_done) {
        shutdown(control->fd, SHUT_WR);
        control->shut_done = 1;
    }
    hp_watch_set(control->watch, control->ended ? 0 : left ? HP_READ | HP_WRITE : HP_READ);
}

int
hp_control_conn_send(hp_control_conn *control, hp_frame_type type, const void *payload, size_t n)
{
    size_t queued = hp_buffer_size(&control->queue), whole = HP_COMMON_BYTES + n + 4;
    if (control->shut || control->ended)
        return 1;
    uint8_t *room = queued + whole <= HP_CONTROL_QUEUE ? hp_buffer_room(&control->queue, whole) : NULL;
    if (!room)
        return 0;
    hp_buffer_grown(&control->queue, hp_frame_put_control(room, type, payload, n));
    if (queued)
        return 1;
    control->moved = hp_loop_now(control->loop);
    write_some(control);
    return 1;
}

void
hp_control_conn_shut(hp_control_conn *control)
{
    control->shut = 1;
    write_some(control);
}

static void
end(hp_control_conn *control, const hoop_error *error)
{
    control->ended = 1;
    hp_watch_set(control->watch, 0);
    control->owner.closed(control->owner.arg, error); /* may free the connection */
}

/* Gives every whole frame to the owner. Returns 0, or -1 with the error filled. */
static int
feed(hp_control_conn *control, const uint8_t *bytes, size_t n, hoop_error *error)
{
    hp_control_frame frame;
    int got;
    while (!control->shut && (got = hp_frame_read(&control->reader, &bytes, &n, &frame, error)) != 0)
        if (got < 0 || control->owner.frame(control->owner.arg, &frame, error))
            return -1;
    return 0;
}

/*
 * Also the end behind the last bytes: a rank that leaves looks once. Returns 0 when the connection has ended, and may have
 * been freed.
 */
static int
read_some(hp_control_conn *control)
{
    uint8_t bytes[READ_BYTES];
    hoop_error error;
    hp_err_clear(&error);
    for (int i = 0; i < READS_PER_EVENT; i++) {
        ssize_t n = recv(control->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 1;
        if (n < 0 || (n == 0 && control->broke))
            hp_err_sys(&error, HOOP_ERR_SYSTEM, control->broke ? control->broke : errno,
                       "the control connection broke");
        if (n <= 0 || feed(control, bytes, (size_t)n, &error)) {
            end(control, &error);
            return 0;
        }
    }
    return 1;
}

static void
on_ready(void *arg, int ready)
{
    hp_control_conn *control = arg;
    if (ready & HP_WRITE)
        write_some(control);
    if (ready & HP_WRITE && !hp_buffer_size(&control->queue) && !control->shut && control->owner.room)
        control->owner.room(control->owner.arg);
    if (ready & HP_READ)
        read_some(control);
}

void
hp_control_conn_finish(hp_control_conn *control, uint64_t limit)
{
    uint64_t until = hp_now() + limit;
    uint8_t bytes[512];
    hp_control_conn_shut(control);
    for (uint64_t now = hp_now(); now < until && !control->ended; now = hp_now()) {
        struct pollfd wait = {control->fd, hp_buffer_size(&control->queue) ? POLLIN | POLLOUT : POLLIN, 0};
        if (poll(&wait, 1, (int)((until - now) / HP_MS) + 1) <= 0)
            continue;
        if (wait.revents & POLLOUT)
            write_some(control);
        ssize_t n = wait.revents & ~POLLOUT ? recv(control->fd, bytes, sizeof(bytes), MSG_DONTWAIT) : 1;
        control->ended = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    }
}

void
hp_control_conn_free(hp_control_conn *control)
{
    if (!control)
        return;
    hp_watch_free(control->watch);
    hp_socket_close(control->fd);
    hp_buffer_free(&control->queue);
    free(control);
}
