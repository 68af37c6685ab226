/* SPDX-License-Identifier: MIT */
/*
 * stripe: see stripe.h. One state machine for each direction. The sender moves {head, body} of the current post; the
 * receiver fills {head, body} with one read, a scattered one if the body is not small. A frame that is not DATA
 * (ABORT, LEAVE) ends the data direction, so bytes read after it are ignored. The idle direction is read when the
 * watch saw it readable, or while acknowledgements are due.
 */
#include "net/stripe.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/wire.h"
#include "net/control.h"
#include "net/frame_check.h"
#include "net/sock.h"
#include "net/zerocopy.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    WAKE_BYTES = 128 << 10,
    TRY_AGAIN = 16,
    DRAIN_BYTES = 1 << 20, /* read at most so much in one call: a peer may send faster than this reads */
    IDLE_BYTES = 512,
    SMALL_BYTES = 2048 /* a payload up to this is copied next to its head: cheaper than an iovec */
};

struct hp_stripe {
    hp_link *link;
    int number, fd;
    hp_watch *watch;
    void (*kick)(void *arg);
    void *kick_arg;
    uint64_t next; /* number of the current post */
    int readable;  /* the watch saw it readable; cleared by EAGAIN */
    int blocked;   /* > 0: the last write would have blocked; try again after so many moves, or when it is writable */
    int eof, left, shut;

    /* the head of the current frame, to send or as received; behind it a small body */
    uint8_t head[HP_COMMON_BYTES + HP_CONTROL_MAX + 4];
    size_t head_n, head_at; /* sending: its size, and bytes sent; receiving: head_at bytes are here */
    hp_frame frame;         /* receiving: the decoded head, as far as it is here */
    int in_body;            /* the head is complete (receiving: and was accepted) */
    uint32_t body_at;

    hp_zerocopy zerocopy; /* sending */
    uint64_t taken;       /* receiving: frames with HP_FRAME_ACK received */
    int wake_at;          /* receiving: SO_RCVLOWAT; 0: the kernel's default */

    hp_control control; /* a sender writes these between data frames; they are all that the idle direction carries */
};

static hp_post *
current(const hp_stripe *s)
{
    return s->next < s->link->posted ? &s->link->posts[s->next & (s->link->capacity - 1)] : NULL;
}

static void
on_ready(void *arg, int ready)
{
    hp_stripe *s = arg;
    if (ready & HP_READ)
        s->readable = 1;
    if (ready & HP_WRITE)
        s->blocked = 0;
    s->kick(s->kick_arg);
}

hp_stripe *
hp_stripe_new(hp_link *link, int number, int fd, hp_loop *loop, void (*kick)(void *arg), void *arg)
{
    hp_stripe *s = hp_alloc(1, sizeof(*s));
    if (!s) {
        close(fd);
        return NULL;
    }
    *s = (hp_stripe){.link = link, .number = number, .fd = fd, .kick = kick, .kick_arg = arg};
    s->next = (uint64_t)number;
    hp_zerocopy_init(&s->zerocopy);
    s->watch = hp_watch_new(loop, fd, on_ready, s);
    /*
     * Watched once now: libevent allocates for a descriptor when it is first watched, and later calls must not
     * allocate.
     */
    if (!s->watch || hp_watch_set(s->watch, HP_READ) != 0) {
        hp_stripe_free(s);
        return NULL;
    }
    hp_watch_set(s->watch, 0);
    return s;
}

static void
fault(const hp_stripe *s)
{
    hp_link_fault(s->link, current(s));
}

static void
lost(hp_stripe *s, int number)
{
    s->eof = 1;
    hp_link_lost(s->link, s->left, number);
}

/* The peer has received `count` posts in all: their pages may be written again. */
static void
acknowledged(hp_stripe *s, uint64_t count)
{
    if (hp_zerocopy_acknowledged(&s->zerocopy, s->link, count, s->next))
        return;
    hp_err_set(&s->link->error, HOOP_ERR_PROTOCOL, "rank %d acknowledged slices that rank %d has not sent",
               s->link->peer, s->link->self);
    fault(s);
}

/* Acts on an ABORT, LEAVE, ACK or TICK, in either direction. */
static void
on_control(hp_stripe *s, int type, const uint8_t *payload, size_t n)
{
    hp_link *l = s->link;
    if (type == HP_LEAVE) {
        s->left = 1;
    } else if (type == HP_ABORT && hp_abort_get(&l->error, payload, n)) {
        if (l->size > 0)
            hp_abort_confine(&l->error, l->size);
        l->state = HP_LINK_ABORT;
    } else if (type == HP_ACK && l->sending && n == HP_ACK_BYTES) {
        acknowledged(s, hp_get64(payload));
    } else if (type == HP_TICK && l->sending && n > 0 && n <= HP_HEARTBEATS_BYTES) {
        hp_link_keep_heartbeats(l, payload, n);
    } else {
        hp_err_set(&l->error, HOOP_ERR_PROTOCOL, "rank %d sent rank %d an unexpected frame of type %d", l->peer,
                   l->self, type);
        fault(s);
    }
}

/* --- idle direction --- */

static int
read_idle(hp_stripe *s)
{
    uint8_t bytes[IDLE_BYTES];
    ssize_t got = recv(s->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    const uint8_t *in = bytes, *payload;
    size_t n = got > 0 ? (size_t)got : 0, payload_n;
    int type, whole;
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        s->readable = 0;
        return 0;
    }
    if (got <= 0) {
        s->readable = 0;
        lost(s, got < 0 ? errno : 0);
        return 1;
    }
    while ((whole = hp_frame_read(&s->control.in, &in, &n, &type, &payload, &payload_n, &s->link->error)) > 0)
        on_control(s, type, payload, payload_n);
    if (whole < 0)
        fault(s);
    return 1;
}

static void
write_control(hp_stripe *s)
{
    if (hp_control_write(&s->control, s->fd))
        s->blocked = TRY_AGAIN;
}

int
hp_stripe_send_control(hp_stripe *s, int type, const void *payload, size_t n)
{
    if (s->shut || s->eof || !hp_control_add(&s->control, s->fd, (hp_frame_type)type, payload, n))
        return 0;
    /* In the middle of a data frame no other frame can be written. */
    if (!s->link->sending || (!s->in_body && s->head_at == 0))
        write_control(s);
    return 1;
}

/* --- sending --- */

/* Whether the payload is small and in one place. */
static int
is_small(const hp_post *post)
{
    return post->bytes <= SMALL_BYTES && post->body.run >= post->bytes;
}

static void
load_head(hp_stripe *s, hp_post *post)
{
    post->pages = hp_zerocopy_wanted(&s->zerocopy, s->link, post);
    if (post->pages)
        post->frame.flags |= HP_FRAME_ACK;
    if (post->frame.flags & HP_FRAME_PAYLOAD_CRC)
        post->frame.payload_crc = hp_iov_crc(&post->body, post->bytes);
    s->head_n = hp_frame_put_data(s->head, &post->frame, post->bytes);
    if (!post->pages && is_small(post) && post->bytes > 0)
        memcpy(s->head + s->head_n, post->body.data, post->bytes);
    s->head_at = 0;
    s->body_at = 0;
    s->in_body = 1;
}

static void
sent(hp_stripe *s, hp_post *post, size_t n)
{
    size_t head = s->head_n - s->head_at;
    if (head > n)
        head = n;
    s->head_at += head;
    s->body_at += (uint32_t)(n - head);
    s->link->bytes += n - head;
    if (s->head_at < s->head_n || s->body_at < post->bytes)
        return;
    if (post->pages)
        hp_zerocopy_sent(&s->zerocopy, s->next);
    else
        post->done = 1;
    s->next += (uint64_t)s->link->stripes;
    s->in_body = 0;
    s->head_at = 0;
}

/* Writes header and payload in one call; with zerocopy the header first, then the pages. */
static ssize_t
write_post(hp_stripe *s, hp_post *post)
{
    struct iovec iov[1 + HP_IOV_ONCE];
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = 1};
    if (post->pages && s->head_at == s->head_n)
        return hp_pipe_send(&s->zerocopy.pipe, s->fd, post->body.data + s->body_at, post->bytes - s->body_at);
    if (!post->pages && is_small(post)) {
        size_t at = s->head_at + s->body_at; /* the body follows the head in the same array */
        return send(s->fd, s->head + at, s->head_n + post->bytes - at, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    iov[0] = (struct iovec){s->head + s->head_at, s->head_n - s->head_at};
    if (!post->pages)
        message.msg_iovlen += (size_t)hp_iov_list(&post->body, s->body_at, post->bytes, iov + 1, HP_IOV_ONCE);
    return sendmsg(s->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL | (post->pages ? MSG_MORE : 0));
}

static int
send_once(hp_stripe *s)
{
    hp_post *post = current(s);
    ssize_t n;
    if (hp_control_waits(&s->control) && !s->in_body)
        write_control(s);
    if (!post || (s->blocked && --s->blocked > 0))
        return 0;
    if (!s->in_body)
        load_head(s, post);
    n = write_post(s, post);
    if (n >= 0) {
        sent(s, post, (size_t)n);
        return 1;
    }
    if (errno == EAGAIN)
        s->blocked = TRY_AGAIN;
    else if (errno != EINTR) {
        int number = errno;
        for (int reads = 0; reads < DRAIN_BYTES / IDLE_BYTES && read_idle(s) && !s->eof; reads++)
            ; /* the peer's ABORT may still lie in the receive queue */
        lost(s, number);
        return 1;
    }
    return 0;
}

/* --- receiving --- */

/*
 * The frame is not DATA. Copies what was read into the post's body back behind the head, and acts on the frame once
 * it is complete.
 */
static void
take_control(hp_stripe *s, const hp_post *post, uint32_t n)
{
    const uint8_t *in = s->head, *payload;
    size_t whole = HP_COMMON_BYTES + s->frame.length, left, payload_n;
    int type;
    if (whole > sizeof(s->head)) {
        hp_err_set(&s->link->error, HOOP_ERR_PROTOCOL, "rank %d sent rank %d an oversized control frame", s->link->peer,
                   s->link->self);
        fault(s);
        return;
    }
    if (n > sizeof(s->head) - s->head_at)
        n = (uint32_t)(sizeof(s->head) - s->head_at);
    if (post)
        hp_iov_copy(&post->body, n, s->head + s->head_at);
    s->head_at += n;
    if (s->head_at < whole)
        return;
    left = whole;
    s->control.in.have = 0;
    if (hp_frame_read(&s->control.in, &in, &left, &type, &payload, &payload_n, &s->link->error) > 0)
        on_control(s, type, payload, payload_n);
    else
        fault(s);
    s->head_at = 0;
}

/* This rank has the bytes: tells the sender that it may write its pages again. */
static void
acknowledge(hp_stripe *s)
{
    uint8_t count[HP_ACK_BYTES];
    s->taken++;
    hp_put64(count, s->taken);
    hp_stripe_send_control(s, HP_ACK, count, sizeof(count));
}

static void
received(hp_stripe *s, hp_post *post, uint32_t n)
{
    s->body_at += n;
    s->link->bytes += n;
    if (s->body_at < post->bytes)
        return;
    if ((s->frame.flags & HP_FRAME_PAYLOAD_CRC) && hp_iov_crc(&post->body, post->bytes) != s->frame.payload_crc) {
        hp_err_set(&s->link->error, HOOP_ERR_CORRUPT,
                   "the bytes of operation %llu from rank %d to rank %d changed on the way",
                   (unsigned long long)post->frame.sequence, s->link->peer, s->link->self);
        fault(s);
        return;
    }
    post->done = 1;
    s->next += (uint64_t)s->link->stripes;
    s->in_body = 0;
    s->head_at = 0;
    if (s->frame.flags & HP_FRAME_ACK)
        acknowledge(s);
}

/* How many bytes of head to read before the frame's type, and so its size, is known. */
static size_t
head_wanted(const hp_stripe *s, const hp_post *post)
{
    if (s->head_at < HP_COMMON_BYTES)
        return post ? hp_frame_head(post->frame.flags) : HP_COMMON_BYTES;
    return s->frame.type == HP_DATA ? hp_frame_head(s->frame.flags) : HP_COMMON_BYTES + s->frame.length;
}

/*
 * The head is longer than the post let expect, so its end was read into the post's body. It is copied back; the rest
 * of the body never moves, because such a frame is refused.
 */
static uint32_t
pull_back(hp_stripe *s, const hp_post *post, uint32_t n)
{
    size_t missing = hp_frame_head(s->frame.flags) - s->head_at;
    if (n > missing)
        n = (uint32_t)missing;
    hp_iov_copy(&post->body, n, s->head + s->head_at);
    s->head_at += n;
    return n;
}

/* `spilled` bytes behind the head were read into the post's body already. */
static void
parse_head(hp_stripe *s, hp_post *post, uint32_t spilled)
{
    if (s->frame.type != HP_DATA) {
        take_control(s, post, spilled);
        return;
    }
    if (post && s->head_at < hp_frame_head(s->frame.flags) &&
        spilled) /* the frame opens an operation where none is awaited */
        spilled -= pull_back(s, post, spilled);
    if (s->head_at < hp_frame_head(s->frame.flags) || !post)
        return;
    if (hp_frame_get_data(&s->frame, s->head + HP_COMMON_BYTES, &s->link->error) != HOOP_SUCCESS) {
        fault(s);
        return;
    }
    if (hp_frame_check(&s->frame, &post->frame, post->bytes, s->link->self, s->link->peer, &s->link->error) !=
        HOOP_SUCCESS) {
        fault(s);
        return;
    }
    s->in_body = 1;
    s->body_at = 0;
    received(s, post, spilled);
}

/* A small body is read behind the head, and copied from there. */
static ssize_t
read_small(hp_stripe *s, const hp_post *post, size_t head, uint32_t from)
{
    uint8_t *in = s->head + s->head_at;
    ssize_t got = recv(s->fd, in, head + post->bytes - from, MSG_DONTWAIT);
    if (got > (ssize_t)head)
        memcpy(post->body.data + from, in + head, (size_t)got - head);
    return got;
}

static ssize_t
read_into(hp_stripe *s, hp_post *post, size_t head)
{
    struct iovec iov[1 + HP_IOV_ONCE];
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = 1};
    uint32_t from = s->in_body ? s->body_at : 0;
    if (!post || (is_small(post) && s->head_at + head + post->bytes <= sizeof(s->head)))
        return post ? read_small(s, post, head, from) : recv(s->fd, s->head + s->head_at, head, MSG_DONTWAIT);
    iov[0] = (struct iovec){s->head + s->head_at, head};
    message.msg_iovlen += (size_t)hp_iov_list(&post->body, from, post->bytes, iov + 1, HP_IOV_ONCE);
    return recvmsg(s->fd, &message, MSG_DONTWAIT);
}

/* Takes what one read brings. Returns 1 if something moved. */
static int
receive_once(hp_stripe *s)
{
    hp_post *post = current(s);
    int known = s->head_at >= HP_COMMON_BYTES;
    size_t head = s->in_body ? 0 : head_wanted(s, post) - s->head_at;
    ssize_t got;
    if (!post && s->in_body) /* cannot happen: a body has its post */
        return 0;
    if (!s->in_body && head == 0) { /* the head was read before its post was there */
        if (!post)
            return 0;
        parse_head(s, post, 0);
        return 1;
    }
    got = read_into(s, post, head);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        s->readable = 0;
        return 0;
    }
    if (got <= 0) {
        s->readable = 0;
        lost(s, got < 0 ? errno : 0);
        return 1;
    }
    size_t in_head = (size_t)got < head ? (size_t)got : head;
    uint32_t spilled = (uint32_t)((size_t)got - in_head);
    s->head_at += in_head;
    if (post && s->in_body) {
        received(s, post, spilled);
        return 1;
    }
    if (s->head_at < HP_COMMON_BYTES)
        return 1;
    if (!known && hp_frame_get_common(&s->frame, s->head, &s->link->error) != HOOP_SUCCESS)
        fault(s);
    else
        parse_head(s, post, spilled);
    return 1;
}

int
hp_stripe_move(hp_stripe *s)
{
    int moved = 0;
    if (s->eof || s->shut || s->link->state == HP_LINK_FAULT)
        return 0;
    if (s->link->sending) {
        moved = send_once(s);
        if ((s->readable || s->zerocopy.sent > s->zerocopy.acknowledged) && !s->eof)
            moved |= read_idle(s);
        return moved;
    }
    if (hp_control_waits(&s->control) && !s->blocked)
        write_control(s);
    return current(s) || s->readable ? receive_once(s) : 0;
}

/*
 * In the middle of a payload the thread need not wake for every packet: the sender's socket delivers the rest, the
 * end of the connection wakes it whatever is set, and the driver polls all links from time to time anyway.
 */
static void
set_wake(hp_stripe *s)
{
    const hp_post *post = current(s);
    uint32_t left = post && s->in_body ? post->bytes - s->body_at : 1;
    int wake_at = left < WAKE_BYTES ? (int)left : WAKE_BYTES;
    if (wake_at != s->wake_at && (s->wake_at || wake_at > 1))
        hp_sock_wake_at(s->fd, wake_at);
    s->wake_at = wake_at;
}

void
hp_stripe_arm(hp_stripe *s)
{
    int interest = 0;
    if (s->link->sending) {
        interest = HP_READ | (current(s) || hp_control_waits(&s->control) ? HP_WRITE : 0);
    } else {
        /* without a post one head is read ahead; then TCP's window holds the sender back */
        int full = !current(s) && s->head_at >= HP_COMMON_BYTES && s->head_at == head_wanted(s, NULL);
        interest = (full ? 0 : HP_READ) | (hp_control_waits(&s->control) ? HP_WRITE : 0);
        if (!s->eof && !s->shut)
            set_wake(s);
    }
    hp_watch_set(s->watch, s->eof || s->shut ? 0 : interest);
}

void
hp_stripe_shut(hp_stripe *s)
{
    if (!s->shut)
        shutdown(s->fd, SHUT_WR);
    s->shut = 1;
    hp_watch_set(s->watch, 0);
}

/*
 * Reads and drops what the peer still sends: closing with unread bytes would reset the connection and destroy what
 * was sent last. A peer that sends without end is cut off by the caller's time-out.
 */
int
hp_stripe_closed(hp_stripe *s)
{
    uint8_t bytes[4096];
    ssize_t n = 1;
    int unacknowledged = 1;
    for (size_t reads = 0; !s->eof && n > 0 && reads < DRAIN_BYTES / sizeof(bytes); reads++)
        n = recv(s->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        s->eof = 1;
    return s->eof || (ioctl(s->fd, SIOCOUTQ, &unacknowledged) == 0 && unacknowledged == 0);
}

int
hp_stripe_is_fresh(const hp_stripe *s)
{
    return s->next == (uint64_t)s->number && s->head_at == 0 && !s->in_body;
}

int
hp_stripe_has_ended(const hp_stripe *s)
{
    return s->eof;
}

void
hp_stripe_abandon(const hp_stripe *s)
{
    close(s->fd);
    if (s->zerocopy.pipe.in >= 0)
        close(s->zerocopy.pipe.in);
    if (s->zerocopy.pipe.out >= 0)
        close(s->zerocopy.pipe.out);
}

void
hp_stripe_free(hp_stripe *s)
{
    if (!s)
        return;
    hp_watch_free(s->watch);
    hp_zerocopy_free(&s->zerocopy);
    close(s->fd);
    free(s);
}
