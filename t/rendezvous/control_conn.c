/* SPDX-License-Identifier: MIT */
/*
 * control_conn: frames over a socket pair: cut at every byte, sent faster than they are read, ended in every way. The queue is
 * bounded, and says since when nothing has moved.
 */
#include "rendezvous/control_conn.h"

#include "base/clock.h"
#include "base/err.h"
#include "t/tap/tap.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct side {
    hp_loop *loop;
    hp_control_conn *control;
    int fd; /* the other end */
    int frames, rooms, closed, refuse_at;
    int type;
    size_t n;
    uint8_t payload[HP_CONTROL_MAX];
    hoop_error error;
} side;

static int
on_frame(void *arg, const hp_control_frame *frame, hoop_error *error)
{
    side *s = arg;
    s->frames++;
    s->type = frame->type;
    s->n = frame->n;
    if (frame->n)
        memcpy(s->payload, frame->payload, frame->n);
    if (s->frames != s->refuse_at)
        return 0;
    hp_err_set(error, HOOP_ERR_PROTOCOL, "no more");
    return -1;
}

static void
on_room(void *arg)
{
    side *s = arg;
    s->rooms++;
}

static void
on_closed(void *arg, const hoop_error *error)
{
    side *s = arg;
    s->closed++;
    s->error = *error;
}

static void
start(side *s)
{
    int fds[2], small = 4096;
    memset(s, 0, sizeof(*s));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds))
        bail("no socket pair");
    setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    hp_control_conn_owner owner = {s, on_frame, on_room, on_closed};
    s->loop = hp_loop_new();
    s->fd = fds[1];
    s->control = hp_control_conn_new(s->loop, fds[0], &owner);
    if (!s->control)
        bail("no line");
}

static void
finish(side *s)
{
    hp_control_conn_free(s->control);
    hp_loop_free(s->loop);
    close(s->fd);
}

static void
turn(side *s)
{
    for (int i = 0; i < 4; i++)
        hp_loop_run(s->loop, 0);
}

static void
test_cuts(void)
{
    side s;
    uint8_t two[2 * (HP_COMMON_BYTES + 20)];
    size_t n = hp_frame_put_control(two, HP_IN_OP, "0123456789", 10);
    int good = 1;
    n += hp_frame_put_control(two + n, HP_READY, NULL, 0);
    start(&s);
    for (size_t cut = 0; cut <= n; cut++) {
        s.frames = 0;
        good &= send(s.fd, two, cut, 0) == (ssize_t)cut;
        turn(&s);
        good &= send(s.fd, two + cut, n - cut, 0) == (ssize_t)(n - cut);
        turn(&s);
        good &= case_ok(s.frames == 2 && s.type == HP_READY && s.n == 0,
                        "cut at byte %zu: %d frames, the last of type %d with %zu bytes", cut, s.frames, (int)s.type,
                        (size_t)s.n);
    }
    ok(good, "two frames cut at each of %zu bytes", n);
    close(s.fd);
    turn(&s);
    ok(s.closed == 1 && s.error.code == HOOP_SUCCESS, "the end is told once");
    s.fd = dup(2);
    finish(&s);
}

static void
test_end_behind_frame(void)
{
    side s;
    uint8_t frame[64];
    start(&s);
    size_t n = hp_frame_put_control(frame, HP_OUT, "12345678", 8);
    send(s.fd, frame, n, 0);
    close(s.fd);
    hp_loop_run(s.loop, 0);
    ok(s.frames == 1 && s.closed == 1 && s.error.code == HOOP_SUCCESS, "an end behind a frame is seen in one turn");
    s.fd = dup(2);
    finish(&s);
}

static void
test_link_losses(void)
{
    side s;
    uint8_t frame[64];
    start(&s);
    send(s.fd, "GET / HTTP/1.1\r\n", 16, 0);
    turn(&s);
    ok(s.closed == 1 && s.frames == 0 && s.error.code == HOOP_ERR_CORRUPT, "what is no frame ends the line: %s",
       s.error.text);
    send(s.fd, "more", 4, 0);
    turn(&s);
    is_int(1, s.closed, "once");
    finish(&s);
    start(&s);
    size_t n = hp_frame_put_control(frame, HP_OUT, "12345678", 8);
    frame[20] ^= 1;
    send(s.fd, frame, n, 0);
    turn(&s);
    ok(s.closed == 1 && s.error.code == HOOP_ERR_CORRUPT && s.frames == 0, "so does a flipped bit");
    finish(&s);
    start(&s);
    s.refuse_at = 2;
    for (int i = 0; i < 3; i++) {
        n = hp_frame_put_control(frame, HP_OUT, "12345678", 8);
        send(s.fd, frame, n, 0);
    }
    turn(&s);
    ok(s.frames == 2 && s.closed == 1 && strcmp(s.error.text, "no more") == 0, "and an owner that wants no more");
    finish(&s);
}

/* Reads what has come and counts whole frames; each must carry its number. */
static int
take_frames(side *s, hp_frame_reader *reader, int *next)
{
    uint8_t bytes[2048];
    hp_control_frame frame;
    int wrong = 0;
    for (ssize_t n; (n = recv(s->fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0;) {
        const uint8_t *at = bytes;
        size_t left = (size_t)n;
        while (hp_frame_read(reader, &at, &left, &frame, NULL) == 1)
            wrong += frame.n != 100 || frame.payload[0] != (uint8_t)(*next)++;
    }
    return wrong;
}

static void
test_queue(void)
{
    static hp_frame_reader reader;
    side s;
    uint8_t payload[100] = {0};
    int sent = 0, next = 0, wrong = 0;
    start(&s);
    is_uint(HP_NEVER, hp_control_conn_blocked_since(s.control), "an empty queue is not blocked");
    uint64_t before = hp_now();
    for (; sent < 10000; sent++) {
        payload[0] = (uint8_t)sent;
        if (!hp_control_conn_send(s.control, HP_PING, payload, sizeof(payload)))
            break;
    }
    ok(sent > 100 && sent < 10000, "the queue takes %d frames that nobody reads", sent);
    ok(hp_control_conn_queued(s.control) <= HP_CONTROL_QUEUE, "and not more than 64 KiB: %zu",
       hp_control_conn_queued(s.control));
    uint64_t since = hp_control_conn_blocked_since(s.control);
    ok(since >= before && since <= hp_now(), "it knows since when it is blocked");
    turn(&s);
    is_uint(since, hp_control_conn_blocked_since(s.control), "time alone does not change that");
    for (int i = 0; i < 1000 && next < sent; i++) {
        wrong += take_frames(&s, &reader, &next);
        turn(&s);
    }
    is_int(sent, next, "all of them arrive when they are read");
    is_int(0, wrong, "in order and unharmed");
    is_int(1, s.rooms, "then there is room again");
    is_uint(HP_NEVER, hp_control_conn_blocked_since(s.control), "and nothing is blocked");
    finish(&s);
}

static void
test_ends(void)
{
    side s;
    uint8_t bytes[256];
    start(&s);
    hp_control_conn_send(s.control, HP_LEAVE, "12345678", 8);
    hp_control_conn_shut(s.control);
    hp_control_conn_send(s.control, HP_PING, NULL, 0);
    is_int(HP_COMMON_BYTES + 12, recv(s.fd, bytes, sizeof(bytes), 0), "what was sent before the end arrives");
    is_int(0, recv(s.fd, bytes, sizeof(bytes), 0), "then the end, and nothing after it");
    size_t n = hp_frame_put_control(bytes, HP_OUT, "12345678", 8);
    send(s.fd, bytes, n, 0);
    turn(&s);
    is_int(0, s.frames, "what still comes is not looked at");
    finish(&s);
    start(&s);
    hp_control_conn_send(s.control, HP_LEAVE, "12345678", 8);
    uint64_t before = hp_now();
    hp_control_conn_finish(s.control, 60 * HP_MS);
    uint64_t took = (hp_now() - before) / HP_MS;
    ok(took >= 59 && (double)took / 1e3 < 1 + tap_room(),
       "a good end waits for the other side, but not for ever: %d ms", (int)took);
    finish(&s);
    start(&s);
    shutdown(s.fd, SHUT_WR);
    before = hp_now();
    hp_control_conn_finish(s.control, 1000 * HP_SEC);
    ok(hp_now() - before < 500 * HP_SEC, "and no longer than needed");
    finish(&s);
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    test_cuts();
    test_end_behind_frame();
    test_link_losses();
    test_queue();
    test_ends();
    return 0;
}
