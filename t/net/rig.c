/* SPDX-License-Identifier: MIT */
/* rig: see rig.h. send, sendmsg, recv and recvmsg are replaced for the whole program, so that a call can be cut short. */
#include "t/net/rig.h"

#include "base/clock.h"
#include "t/tap/tap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { QUIET_TURNS = 30 };

rig_limit rig_sending = {SIZE_MAX, SIZE_MAX, 0}, rig_receiving = {SIZE_MAX, SIZE_MAX, 0};

int rig_receive_buffer;
uint32_t rig_shares;

void
rig_unlimited(void)
{
    rig_sending = rig_receiving = (rig_limit){SIZE_MAX, SIZE_MAX, 0};
}

/* --- system calls cut short --- */

/* A copy of the message with no more than `most` bytes. */
static struct msghdr
shortened(const struct msghdr *message, size_t most, struct iovec iov[1 + HP_IOV_ONCE])
{
    struct msghdr shorter = *message;
    shorter.msg_iov = iov;
    shorter.msg_iovlen = 0;
    for (size_t i = 0; i < message->msg_iovlen && most > 0; i++) {
        iov[i] = message->msg_iov[i];
        if (iov[i].iov_len > most)
            iov[i].iov_len = most;
        most -= iov[i].iov_len;
        shorter.msg_iovlen++;
    }
    return shorter;
}

static ssize_t
limited(long number, rig_limit *limit, int fd, const struct msghdr *message, int flags)
{
    struct iovec iov[1 + HP_IOV_ONCE];
    size_t most = limit->calls++ == 0 ? limit->first : limit->others;
    if (most == 0) {
        errno = EAGAIN;
        return -1;
    }
    struct msghdr shorter = shortened(message, most, iov);
    return syscall(number, fd, &shorter, flags);
}

ssize_t
sendmsg(int fd, const struct msghdr *message, int flags)
{
    return limited(SYS_sendmsg, &rig_sending, fd, message, flags);
}

ssize_t
recvmsg(int fd, struct msghdr *message, int flags)
{
    return limited(SYS_recvmsg, &rig_receiving, fd, message, flags);
}

ssize_t
send(int fd, const void *bytes, size_t n, int flags)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = n};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    return limited(SYS_sendmsg, &rig_sending, fd, &message, flags);
}

ssize_t
recv(int fd, void *bytes, size_t n, int flags)
{
    struct iovec iov = {.iov_base = bytes, .iov_len = n};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    return limited(SYS_recvmsg, &rig_receiving, fd, &message, flags);
}

/* --- scattered payloads --- */

enum { GAP = 3, GAP_BYTE = 0xee };

void
rig_scatter_make(rig_scatter *s, const uint8_t *bytes, uint32_t n)
{
    static const uint32_t sizes[RIG_PIECES] = {2, 0, 1, 7, 5, 0, 3, UINT32_MAX};
    uint32_t at = 0, place = sizeof(s->memory);
    memset(s->memory, GAP_BYTE, sizeof(s->memory));
    for (int k = 0; k < RIG_PIECES; k++) {
        uint32_t here = sizes[k] < n - at ? sizes[k] : n - at;
        place -= here + GAP;
        s->segment[k] = (hp_segment){at, here, s->memory + place, s->memory + place};
        if (bytes && here > 0)
            memcpy(s->memory + place, bytes + at, here);
        at += here;
    }
    s->pieces = (hp_iov){.data = s->segment[0].recv, .run = (uint32_t)s->segment[0].count, .elem = 1};
    s->pieces.rest = s->segment + 1;
    s->pieces.side = bytes ? HP_SIDE_SEND : HP_SIDE_RECV;
}

int
rig_scatter_holds(const rig_scatter *s, const uint8_t *bytes)
{
    uint8_t rest[sizeof(s->memory)];
    memcpy(rest, s->memory, sizeof(rest));
    for (int k = 0; k < RIG_PIECES; k++) {
        const hp_segment *here = &s->segment[k];
        if (memcmp(here->recv, bytes + here->begin, here->count) != 0)
            return 0;
        memset(rest + (here->recv - s->memory), GAP_BYTE, here->count);
    }
    for (size_t i = 0; i < sizeof(rest); i++)
        if (rest[i] != GAP_BYTE)
            return 0;
    return 1;
}

/* --- connections --- */

void
rig_connect(int ends[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(at);
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (rig_receive_buffer) /* the accepted end inherits it */
        setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &rig_receive_buffer, sizeof(rig_receive_buffer));
    if (listener < 0 || bind(listener, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&at, &length) != 0)
        bail("no listener: %s", strerror(errno));
    ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(ends[0], (struct sockaddr *)&at, sizeof(at)) != 0)
        bail("no connection: %s", strerror(errno));
    ends[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    for (int i = 0; i < 2; i++) {
        setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        fcntl(ends[i], F_SETFL, fcntl(ends[i], F_GETFL) | O_NONBLOCK);
    }
    close(listener);
}

static void
kicked(void *arg)
{
    ((rig *)arg)->kicks++;
}

const hp_link_owner *rig_owner;

static void
attach(rig *r, hp_link *link, int k, int fd)
{
    hoop_error error;
    link->owner = rig_owner;
    if (hp_link_attach(link, k, fd, r->loop, kicked, r, &error) != HOOP_SUCCESS)
        bail("%s", error.text);
}

/* Two links that face each other share memory, or one and the test. */
static void
share(hp_link *dials, hp_link *accepts, int k, hp_shm **bare)
{
    int directions = 1 + ((dials ? dials : accepts)->twin != NULL);
    hp_hello hello = {.comm = 1, .epoch = 7, .channel = 2, .stripe = (uint16_t)k, .role = HP_ROLE_DATA};
    const char *why;
    hp_shm *maker = hp_shm_new(&hello, rig_shares, directions), *opener = hp_shm_open(&hello, directions, &why);
    if (!maker || !opener)
        bail("no memory: %s", maker ? why : strerror(errno));
    if (dials)
        hp_link_share(dials, k, maker);
    else
        *bare = maker;
    if (accepts)
        hp_link_share(accepts, k, opener);
    else
        *bare = opener;
}

void
rig_share(hp_link *dials, hp_link *accepts, int k, hp_shm **bare)
{
    if (rig_shares)
        share(dials, accepts, k, bare);
}

static void
begin(rig *r)
{
    *r = (rig){.loop = hp_loop_new(), .bare = -1};
    if (!r->loop)
        bail("no loop");
    rig_unlimited();
}

void
rig_open(rig *r, int stripes)
{
    begin(r);
    r->out = hp_link_new(1, 0, 1, 1, stripes, RIG_CAPACITY);
    r->in = hp_link_new(0, 1, 0, 1, stripes, RIG_CAPACITY);
    for (int k = 0; k < stripes; k++) {
        int ends[2];
        rig_connect(ends);
        attach(r, r->out, k, ends[0]);
        attach(r, r->in, k, ends[1]);
        r->in_fd = ends[1];
        rig_share(r->out, r->in, k, NULL);
    }
}

void
rig_open_in(rig *r)
{
    int ends[2];
    begin(r);
    rig_connect(ends);
    r->in = hp_link_new(0, 1, 0, 1, 1, RIG_CAPACITY);
    attach(r, r->in, 0, ends[1]);
    r->bare = ends[0];
    rig_share(NULL, r->in, 0, &r->bare_shm);
}

void
rig_open_out(rig *r)
{
    int ends[2];
    begin(r);
    rig_connect(ends);
    r->out = hp_link_new(1, 0, 1, 1, 1, RIG_CAPACITY);
    attach(r, r->out, 0, ends[0]);
    r->bare = ends[1];
    rig_share(r->out, NULL, 0, &r->bare_shm);
}

void
rig_close(rig *r)
{
    hp_link_free(r->out);
    hp_link_free(r->in);
    if (r->bare >= 0)
        close(r->bare);
    hp_shm_free(r->bare_shm);
    hp_loop_free(r->loop);
    rig_unlimited();
}

void
rig_reset_bare(rig *r)
{
    struct linger now = {1, 0};
    setsockopt(r->bare, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close(r->bare);
    r->bare = -1;
}

void
rig_shut_bare(rig *r)
{
    close(r->bare);
    r->bare = -1;
}

/* --- turns --- */

static int
move(rig *r)
{
    int moved = r->out ? hp_link_move(r->out) : 0;
    if (r->in)
        moved |= hp_link_move(r->in);
    return moved;
}

static void
arm(rig *r, uint64_t wait_ns)
{
    if (r->out)
        hp_link_arm(r->out);
    if (r->in)
        hp_link_arm(r->in);
    hp_loop_run(r->loop, wait_ns);
}

void
rig_turn(rig *r)
{
    move(r);
    arm(r, 0);
}

void
rig_settle(rig *r)
{
    for (int quiet = 0; quiet < QUIET_TURNS; quiet++) {
        if (move(r))
            quiet = 0;
        arm(r, 0);
    }
}

int
rig_until_done(rig *r, hp_link *link, uint64_t done)
{
    for (tap_wait w = {0}; link->done < done && tap_waits(&w);) {
        if (!move(r) && link->state > HP_LINK_LEFT)
            break;
        arm(r, link->done < done ? HP_MS : 0);
    }
    return link->done >= done;
}

int
rig_until_state(rig *r, const hp_link *link, hp_link_state state)
{
    for (tap_wait w = {0}; link->state != state && tap_waits(&w);) {
        move(r);
        arm(r, HP_MS);
    }
    return link->state == state;
}

/* --- bytes --- */

hp_frame
rig_frame(uint64_t sequence, uint32_t step, uint16_t flags)
{
    hp_frame frame = {.type = HP_DATA, .flags = flags, .epoch = 7, .channel = 2, .sequence = sequence, .step = step};
    frame.call = (hp_call){.kind = HP_ALLREDUCE, .dtype = HOOP_FLOAT32, .root = -1, .count = 100};
    frame.signature = hp_call_signature(&frame.call);
    return frame;
}

/* What a process beside memory does: it writes, and wakes the other one if that has asked for it. */
static ssize_t
put_shared(rig *r, const void *bytes, size_t n)
{
    struct iovec place = {(void *)(uintptr_t)bytes, n};
    uint8_t wake[HP_COMMON_BYTES + 4];
    ssize_t put = hp_pipe_move(&r->bare_shm->out, &place, 1);
    if (hp_pipe_wakes_other(&r->bare_shm->out))
        sendto(r->bare, wake, hp_frame_put_control(wake, HP_WAKE, NULL, 0), MSG_NOSIGNAL, NULL, 0);
    if (put == 0)
        rig_turn(r);
    return r->in->state > HP_LINK_LEFT ? (ssize_t)n : put;
}

void
rig_write(rig *r, const void *bytes, size_t n)
{
    const char *at = bytes;
    for (tap_wait w = {0}; n > 0 && tap_waits(&w);) {
        ssize_t put = r->bare_shm && r->bare_shm->out.bytes
                          ? put_shared(r, at, n)
                          : sendto(r->bare, at, n, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
        if (put < 0 && errno != EAGAIN)
            return; /* the link has closed it: what the test then sees says so */
        if (put > 0) {
            at += put;
            n -= (size_t)put;
        }
    }
}

size_t
rig_read(rig *r, void *bytes, size_t room)
{
    struct iovec place = {bytes, room};
    if (r->bare_shm && r->bare_shm->in.bytes) {
        ssize_t n = hp_pipe_move(&r->bare_shm->in, &place, 1);
        return n > 0 ? (size_t)n : 0;
    }
    ssize_t got = recvfrom(r->bare, bytes, room, MSG_DONTWAIT, NULL, NULL);
    return got > 0 ? (size_t)got : 0;
}

size_t
rig_record(const hp_frame *frame, const void *data, uint32_t bytes, uint8_t *wire, size_t room)
{
    rig r;
    size_t n = 0, got;
    rig_open_out(&r);
    hp_link_post(r.out, frame, (void *)(uintptr_t)data, bytes);
    for (int quiet = 0; quiet < QUIET_TURNS; quiet++) {
        rig_turn(&r);
        got = rig_read(&r, wire + n, room - n);
        n += got;
        if (got)
            quiet = 0;
    }
    rig_close(&r);
    return n;
}
