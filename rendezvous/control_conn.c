/* SPDX-License-Identifier: MIT */
/*
 * control_conn: frames over one socket. A write is tried at once when nothing is queued, so that a verdict leaves without a
 * turn of the loop; a write that fails is noticed by the next read. Bounded work per event: 64 KiB read.
 */
#include "rendezvous/control_conn.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_BYTES = 16 << 10, READS_PER_EVENT = 4, FIRST_QUEUE = 1 << 10 };

struct hp_line {
    hp_loop *loop;
    int fd;
    hp_watch *watch;
    hp_line_owner owner;
    int shut, shut_done, ended;
    int broke; /* errno of a write that failed, which takes it from the read; 0: none */
    uint8_t *queue;
    size_t capacity, head, tail; /* bytes [head, tail) wait */
    uint64_t moved;
    hp_frame_reader reader;
};

static void on_ready(void *arg, int ready);

hp_line *
hp_line_new(hp_loop *loop, int fd, const hp_line_owner *owner)
{
    hp_line *line = hp_alloc(1, sizeof(*line));
    if (!line)
        return NULL;
    line->loop = loop;
    line->fd = fd;
    line->owner = *owner;
    line->watch = hp_watch_new(loop, fd, on_ready, line);
    if (!line->watch || hp_watch_set(line->watch, HP_READ)) {
        hp_watch_free(line->watch);
        free(line);
        return NULL;
    }
    return line;
}

size_t
hp_line_queued(const hp_line *line)
{
    return line->tail - line->head;
}

int
hp_line_arrived(const hp_line *line)
{
    int waits = 0;
    return line->tail == line->head && (ioctl(line->fd, SIOCOUTQ, &waits) < 0 || waits == 0);
}

uint64_t
hp_line_blocked_since(const hp_line *line)
{
    return line->tail > line->head ? line->moved : HP_NEVER;
}

static void
write_some(hp_line *line)
{
    while (line->head < line->tail && !line->ended) {
        ssize_t n = send(line->fd, line->queue + line->head, line->tail - line->head, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            if (errno == EAGAIN || errno == EWOULDBLOCK)
                break;
            if (errno != EPIPE && !line->broke) /* EPIPE: an end was there before */
                line->broke = errno;
            line->head = line->tail = 0; /* the read side will say so */
            break;
        }
        line->head += (size_t)n;
        line->moved = hp_loop_now(line->loop);
    }
    if (line->head == line->tail) {
        line->head = line->tail = 0;
        if (line->shut && !line->shut_done) {
            shutdown(line->fd, SHUT_WR);
            line->shut_done = 1;
        }
    }
    hp_watch_set(line->watch, line->ended ? 0 : line->tail ? HP_READ | HP_WRITE : HP_READ);
}

/* Makes room behind the tail: moves the bytes to the front, or doubles the queue up to its limit. */
static int
make_room(hp_line *line, size_t n)
{
    size_t used = line->tail - line->head, want = line->capacity ? line->capacity : FIRST_QUEUE;
    if (used + n > HP_LINE_QUEUE)
        return 0;
    while (want < used + n)
        want *= 2;
    if (want > line->capacity) {
        uint8_t *queue = realloc(line->queue, want);
        if (!queue)
            return 0;
        line->queue = queue;
        line->capacity = want;
    }
    if (line->capacity - line->tail < n) {
        memmove(line->queue, line->queue + line->head, used);
        line->head = 0;
        line->tail = used;
    }
    return 1;
}

int
hp_line_send(hp_line *line, hp_frame_type type, const void *payload, size_t n)
{
    int idle = line->head == line->tail;
    if (line->shut || line->ended)
        return 1;
    if (!make_room(line, HP_COMMON_BYTES + n + 4))
        return 0;
    line->tail += hp_frame_put_control(line->queue + line->tail, type, payload, n);
    if (!idle)
        return 1;
    line->moved = hp_loop_now(line->loop);
    write_some(line);
    return 1;
}

void
hp_line_shut(hp_line *line)
{
    line->shut = 1;
    write_some(line);
}

static void
end(hp_line *line, const hoop_error *error)
{
    line->ended = 1;
    hp_watch_set(line->watch, 0);
    line->owner.closed(line->owner.arg, error); /* may free the line */
}

/* Every whole frame to the owner; 0, or -1 with the error filled. */
static int
feed(hp_line *line, const uint8_t *bytes, size_t n, hoop_error *error)
{
    int type, got;
    const uint8_t *payload;
    size_t payload_n;
    while (!line->shut && (got = hp_frame_read(&line->reader, &bytes, &n, &type, &payload, &payload_n, error)) != 0)
        if (got < 0 || line->owner.frame(line->owner.arg, type, payload, payload_n, error))
            return -1;
    return 0;
}

/* Returns 0 when the line has ended (and may be gone). */
static int
read_some(hp_line *line)
{
    uint8_t bytes[READ_BYTES];
    hoop_error error;
    hp_err_clear(&error);
    for (int i = 0; i < READS_PER_EVENT; i++) {
        ssize_t n = recv(line->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return 1;
        if (n < 0 || (n == 0 && line->broke))
            hp_err_sys(&error, HOOP_ERR_SYSTEM, line->broke ? line->broke : errno, "the control connection broke");
        if (n <= 0 || feed(line, bytes, (size_t)n, &error)) {
            end(line, &error);
            return 0;
        }
        if ((size_t)n < sizeof(bytes))
            return 1;
    }
    return 1;
}

static void
on_ready(void *arg, int ready)
{
    hp_line *line = arg;
    if (ready & HP_WRITE)
        write_some(line);
    if (ready & HP_WRITE && line->head == line->tail && !line->shut && line->owner.room)
        line->owner.room(line->owner.arg);
    if (ready & HP_READ)
        read_some(line);
}

void
hp_line_finish(hp_line *line, uint64_t limit)
{
    uint64_t until = hp_now() + limit;
    uint8_t bytes[512];
    hp_line_shut(line);
    for (uint64_t now = hp_now(); now < until && !line->ended; now = hp_now()) {
        struct pollfd wait = {line->fd, line->tail ? POLLIN | POLLOUT : POLLIN, 0};
        if (poll(&wait, 1, (int)((until - now) / HP_MS) + 1) <= 0)
            continue;
        if (wait.revents & POLLOUT)
            write_some(line);
        ssize_t n = wait.revents & ~POLLOUT ? recv(line->fd, bytes, sizeof(bytes), MSG_DONTWAIT) : 1;
        line->ended = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    }
}

void
hp_line_free(hp_line *line)
{
    if (!line)
        return;
    hp_watch_free(line->watch);
    close(line->fd);
    free(line->queue);
    free(line);
}

void
hp_line_abandon(const hp_line *line)
{
    close(line->fd);
}
