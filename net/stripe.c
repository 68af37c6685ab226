/* SPDX-License-Identifier: MIT */
/*
 * stripe: see stripe.h. One state machine for each direction. The sender moves {head, body} of the current post; the
 * receiver, receiver.c, says where one read puts its bytes and what has come. A direction without posts is read when the
 * watch saw it readable, and so is a connection beside shared memory.
 */
#include "net/stripe.h"

#include "base/err.h"
#include "base/mem.h"
#include "net/socket.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum {
    TRY_AGAIN = 16,
    DRAIN_BYTES = 1 << 20, /* read at most so much in one call: a peer may send faster than this reads */
    IDLE_BYTES = 512,
    DELAY_ACKS_EVERY = 16 /* posts */
};

static hp_post *
post_at(const hp_link *link, uint64_t number)
{
    return link && number < link->posted ? &link->posts[number & (link->capacity - 1)] : NULL;
}

static hp_post *
to_send(const hp_stripe *s)
{
    return post_at(s->out, s->next_out);
}

static hp_post *
awaited(const hp_stripe *s)
{
    return post_at(s->in, s->next_in);
}

/*
 * The rank that has accepted a connection sends no data before it has heard from the other one: the last message of the
 * handshake may have been lost, and then the other one dials again.
 */
static int
may_send(const hp_stripe *s)
{
    return s->out && (!s->accepted || s->heard);
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
hp_stripe_new(hp_link *link, int number, int fd, hp_loop *loop, hp_kick_fn *kick, void *arg)
{
    hp_stripe *s = hp_alloc(1, sizeof(*s));
    if (!s) {
        hp_socket_close(fd);
        return NULL;
    }
    *s = (hp_stripe){.loop = loop, .kick = kick, .kick_arg = arg};
    s->out = link->sending ? link : link->twin;
    s->in = link->sending ? link->twin : link;
    s->next_out = s->next_in = (uint64_t)number;
    s->accepted = !link->dials;
    hp_medium_begin(&s->medium, fd);
    hp_receiver_init(&s->receiver, link->self, link->peer);
    if (link->owner) /* every frame there has its call, and what is shorter is the last one */
        s->receiver.first_read = HP_DATA_HEAD_CALL;
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

/* What this connection brought is wrong: the link that receives fails, or the one that has no other. */
static hp_link *
receiving(const hp_stripe *s)
{
    return s->in ? s->in : s->out;
}

/* Its error has the code and sentence already: this adds the ranks and the operation of the post, and ends the link. */
static void
fault(const hp_stripe *s)
{
    hp_link *l = receiving(s);
    const hp_post *post = s->in ? awaited(s) : to_send(s);
    l->error.rank = l->peer;
    l->error.reporter = l->self;
    if (l->owner)
        l->error.sequence = HP_NO_OPERATION;
    else if (!l->error.sequence && post)
        l->error.sequence = hp_frame_operation(&post->frame);
    l->state = HP_LINK_FAULT;
}

static void
lose_link(hp_link *l, int left, int number)
{
    if (!l || l->state == HP_LINK_FAULT || l->state == HP_LINK_ABORT)
        return;
    l->state = left ? HP_LINK_LEFT : HP_LINK_LOST;
    if (number)
        hp_err_sys(&l->error, HOOP_ERR_PEER_LOST, number, "rank %d lost its connection to rank %d", l->self, l->peer);
    else
        hp_err_set(&l->error, HOOP_ERR_PEER_LOST,
                   left ? "rank %d: rank %d has left the communicator" : "rank %d: rank %d closed its connection",
                   l->self, l->peer);
    l->error.rank = l->peer;
    l->error.reporter = l->self;
}

/* End of file or a reset, which is a symptom: the cause may still arrive from elsewhere. */
static void
lost(hp_stripe *s, int number)
{
    s->medium.eof = 1;
    lose_link(s->in, s->left, number);
    lose_link(s->out, s->left, number);
}

/* The peer passes on a first cause. */
static void
aborted(hp_link *link, const hoop_error *cause)
{
    if (!link)
        return;
    link->error = *cause;
    if (link->size > 0)
        hp_abort_confine(&link->error, link->size);
    link->state = HP_LINK_ABORT;
}

static void
on_control(hp_stripe *s, int type, const uint8_t *payload, size_t n)
{
    hp_link *idle = s->in ? NULL : s->out, *blamed = receiving(s);
    hoop_error cause;
    hp_err_clear(&cause);
    if (type == HP_LEAVE) {
        s->left = 1;
    } else if (type == HP_ABORT && hp_abort_get(&cause, payload, n)) {
        aborted(s->in, &cause);
        aborted(s->out, &cause);
    } else if (type == HP_WAKE && s->medium.shm) {
        /* this process is awake */
    } else if (type == HP_TICK && idle && n > 0 && n <= HP_HEARTBEATS_BYTES) {
        if (!idle->heartbeats)
            return;
        /* The link's owner reads them from time to time. When the room is full, they replace the older ones. */
        if (idle->heartbeats_n + n > HP_HEARTBEATS_ROOM)
            idle->heartbeats_n = 0;
        memcpy(idle->heartbeats + idle->heartbeats_n, payload, n);
        idle->heartbeats_n += n;
    } else if (type == HP_CREDIT && idle && idle->owner && n == HP_CREDIT_BYTES) {
        if (idle->owner->credit(idle->owner->arg, payload, &idle->error) != HOOP_SUCCESS)
            fault(s);
    } else {
        hp_err_set(&blamed->error, HOOP_ERR_PROTOCOL, "rank %d sent rank %d an unexpected frame of type %d",
                   blamed->peer, blamed->self, type);
        fault(s);
    }
}

/* What has been written or read may be what the peer sleeps for. */
static void
wake_peer(hp_stripe *s)
{
    if (s->medium.owes_wake && hp_stripe_send_control(s, HP_WAKE, NULL, 0))
        s->medium.owes_wake = 0;
}

/* Nothing was moved, for this reason. Returns 1 if that ends the connection. */
static int
is_over(hp_stripe *s, int number)
{
    hp_link *blamed = receiving(s);
    if (number == EBADMSG) {
        hp_err_set(&blamed->error, HOOP_ERR_PROTOCOL, "rank %d has spoilt the memory that it shares with rank %d",
                   blamed->peer, blamed->self);
        fault(s);
    }
    return number != EAGAIN && number != EINTR && number != EBADMSG;
}

/* --- a connection that brings control frames only --- */

static int
read_controls(hp_stripe *s)
{
    uint8_t bytes[IDLE_BYTES];
    ssize_t got = s->medium.over ? 0 : recv(s->medium.fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    const uint8_t *in = bytes, *payload;
    size_t n = got > 0 ? (size_t)got : 0, payload_n;
    int type, whole;
    if (got < 0 && !is_over(s, errno)) {
        s->readable = 0;
        return 0;
    }
    if (got <= 0) {
        s->readable = 0;
        s->medium.over = 1; /* only noted where memory has to be read first */
        s->medium.number = got < 0 ? errno : 0;
        if (!s->in)
            lost(s, s->medium.number);
        return 1;
    }
    s->heard = 1;
    s->readable &= n == sizeof(bytes) || !s->medium.shm; /* the watch sees it again */
    while ((whole = hp_frame_read(&s->control.in, &in, &n, &type, &payload, &payload_n, &receiving(s)->error)) > 0)
        on_control(s, type, payload, payload_n);
    if (whole < 0)
        fault(s);
    return 1;
}

static void
write_control(hp_stripe *s)
{
    if (hp_control_write(&s->control, s->medium.fd))
        s->blocked = TRY_AGAIN;
}

/* The last words of a rank follow its data into memory where they fit in, and overtake them on the connection otherwise. */
static int
put_shared(hp_stripe *s, int type, const void *payload, size_t n)
{
    uint8_t frame[HP_COMMON_BYTES + HP_ABORT_BYTES + 4];
    int follows = s->medium.shm && s->out && !s->in_body && (type == HP_ABORT || type == HP_LEAVE);
    if (!follows || n > HP_ABORT_BYTES || hp_pipe_left(&s->medium.shm->out) < sizeof(frame))
        return 0;
    struct iovec whole = {frame, hp_frame_put_control(frame, (hp_frame_type)type, payload, n)};
    int put = hp_medium_write(&s->medium, &whole, 1) > 0;
    wake_peer(s);
    return put;
}

int
hp_stripe_send_control(hp_stripe *s, int type, const void *payload, size_t n)
{
    if (s->medium.shut || s->medium.eof)
        return 0;
    if (put_shared(s, type, payload, n))
        return 1;
    if (!hp_control_add(&s->control, s->medium.fd, (hp_frame_type)type, payload, n))
        return 0;
    if (!s->in_body || s->medium.shm) /* no other frame can be written in the middle of a data frame */
        write_control(s);
    return 1;
}

/* --- sending --- */

/* Payload has moved. */
static inline void
add_bytes(hp_link *link, uint64_t bytes)
{
    link->bytes += bytes;
    if (link->total)
        hp_count_add(link->total, bytes);
}

static void
sent(hp_stripe *s, hp_post *post, size_t n)
{
    size_t head = s->head_n - s->head_at;
    if (head > n)
        head = n;
    s->head_at += head;
    s->body_at += (uint32_t)(n - head);
    add_bytes(s->out, n - head);
    if (s->head_at < s->head_n || s->body_at < post->bytes)
        return;
    post->done = 1;
    s->next_out += (uint64_t)s->out->stripes;
    s->in_body = 0;
    s->head_at = 0;
}

/* Writes header and payload in one call. */
static ssize_t
write_post(hp_stripe *s, hp_post *post)
{
    struct iovec places[1 + HP_IOV_ONCE];
    if (hp_post_is_small(post)) {
        size_t at = s->head_at + s->body_at; /* the body follows the head in the same array */
        places[0] = (struct iovec){s->head + at, s->head_n + post->bytes - at};
        return hp_medium_write(&s->medium, places, 1);
    }
    places[0] = (struct iovec){s->head + s->head_at, s->head_n - s->head_at};
    return hp_medium_write(&s->medium, places,
                           1 + hp_iov_list(&post->body, s->body_at, post->bytes, places + 1, HP_IOV_ONCE));
}

/* --- receiving --- */

/* Takes what one read brings. Returns 1 if something moved. */
static int
receive_once(hp_stripe *s)
{
    struct iovec places[HP_RECEIVER_PLACES];
    hp_post *post = awaited(s);
    int count = hp_receiver_places(&s->receiver, post, places);
    ssize_t got = count > 0 ? hp_medium_read(&s->medium, places, count) : 0;
    if (count == 0 && !post)
        return 0;
    if (got < 0 && !is_over(s, errno)) {
        s->readable &= s->medium.shm != NULL;
        return 0;
    }
    if (count > 0 && got <= 0) {
        s->readable = 0;
        lost(s, got < 0 ? errno : 0);
        return 1;
    }
    s->heard = 1;
    wake_peer(s);
    hp_received what = hp_receiver_take(&s->receiver, post, (size_t)got, &s->in->error);
    add_bytes(s->in, what.bytes);
    if (what.event == HP_EVENT_FAULT)
        fault(s);
    if (what.event == HP_EVENT_CONTROL)
        on_control(s, what.type, what.payload, what.payload_n);
    if (what.event != HP_EVENT_POST)
        return 1;
    post->done = 1;
    s->next_in += (uint64_t)s->in->stripes;
    if (s->next_in / (uint64_t)s->in->stripes % DELAY_ACKS_EVERY == 0)
        hp_medium_delay_acks(&s->medium);
    return 1;
}

/* Reads what there is, whoever it is for. */
static int
take(hp_stripe *s)
{
    int moved = !s->in || (s->medium.shm && s->readable) ? read_controls(s) : 0;
    hp_link *l = s->in;
    if (!l || l->state >= HP_LINK_FAULT) /* the first cause stays */
        return moved;
    moved |= receive_once(s);
    /* A frame has come for which there is no post: on a link for messages the owner posts now. */
    if (l->owner && !awaited(s) && hp_receiver_is_full(&s->receiver) && l->state != HP_LINK_FAULT &&
        (hp_receiver_head(&s->receiver, &l->error) != HOOP_SUCCESS ||
         l->owner->head(l->owner->arg, &s->receiver.frame, &l->error) != HOOP_SUCCESS))
        fault(s);
    return moved;
}

/* Whether the direction that has posts may bring something. */
static int
may_read(hp_stripe *s)
{
    return awaited(s) || s->readable || s->in->polled || hp_medium_has_bytes(&s->medium);
}

/* --- both --- */

static int
send_once(hp_stripe *s)
{
    hp_post *post = to_send(s);
    ssize_t n;
    if (hp_control_waits(&s->control) && (!s->in_body || s->medium.shm))
        write_control(s);
    if (!post || !may_send(s) || (s->blocked && --s->blocked > 0))
        return 0;
    if (!s->in_body) {
        if (post->frame.flags & HP_FRAME_PAYLOAD_CRC)
            post->frame.payload_crc = hp_iov_crc(&post->body, post->bytes);
        s->head_n = hp_frame_put_data(s->head, &post->frame, post->bytes);
        if (hp_post_is_small(post) && post->bytes > 0)
            memcpy(s->head + s->head_n, post->body.data, post->bytes);
        s->head_at = 0;
        s->body_at = 0;
        s->in_body = 1;
    }
    n = write_post(s, post);
    int number = errno;
    if (n >= 0) {
        sent(s, post, (size_t)n);
        wake_peer(s);
        return 1;
    }
    if (number == EAGAIN)
        s->blocked = s->medium.shm ? 0 : TRY_AGAIN; /* to look at memory costs no system call */
    if (is_over(s, number)) {
        for (int reads = 0; reads < DRAIN_BYTES / IDLE_BYTES && take(s) && !s->medium.eof; reads++)
            ; /* the peer's ABORT may still lie in the receive queue */
        lost(s, number);
        return 1;
    }
    return 0;
}

int
hp_stripe_move(hp_stripe *s, const hp_link *link)
{
    if (s->medium.eof || s->medium.shut || link->state == HP_LINK_FAULT)
        return 0;
    hp_medium_awake(&s->medium);
    if (link == s->in) {
        if (hp_control_waits(&s->control) && !s->blocked && (!s->in_body || s->medium.shm))
            write_control(s);
        return may_read(s) ? take(s) : 0;
    }
    int moved = send_once(s);
    if ((s->readable || s->out->polled || (s->in && s->medium.shm && may_read(s))) && !s->medium.eof)
        moved |= take(s);
    return moved;
}

void
hp_stripe_arm(hp_stripe *s)
{
    /* without a post one head is read ahead; then TCP's window, or the full ring, holds the sender back */
    int full = s->in && !awaited(s) && hp_receiver_is_full(&s->receiver);
    hp_post *post = may_send(s) ? to_send(s) : NULL;
    uint32_t left = hp_receiver_body_left(&s->receiver, awaited(s));
    int shares = s->medium.shm != NULL, writes = (post && !shares) || hp_control_waits(&s->control);
    if (s->medium.eof || s->medium.shut) {
        hp_watch_set(s->watch, 0);
        return;
    }
    uint32_t bytes = !s->in || (full && shares) ? 0 : left ? left : 1;
    if (hp_medium_await(&s->medium, bytes, !post ? 0 : s->in_body ? post->bytes - s->body_at + 1 : 1))
        hp_loop_wake(s->loop); /* there is something to move after all */
    hp_watch_set(s->watch, s->medium.over ? 0 : (full && !shares ? 0 : HP_READ) | (writes ? HP_WRITE : 0));
}

void
hp_stripe_shut(hp_stripe *s)
{
    if (!s->medium.shut)
        shutdown(s->medium.fd, SHUT_WR);
    s->medium.shut = 1;
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
    for (size_t reads = 0; !s->medium.eof && n > 0 && reads < DRAIN_BYTES / sizeof(bytes); reads++)
        n = recv(s->medium.fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        s->medium.eof = 1;
    return s->medium.eof || (ioctl(s->medium.fd, SIOCOUTQ, &unacknowledged) == 0 && unacknowledged == 0);
}

const hp_frame *
hp_stripe_unposted(hp_stripe *s)
{
    hoop_error wrong; /* it is reported when the frame is taken */
    if ((awaited(s) && s->in->state != HP_LINK_FAULT) || !hp_receiver_is_full(&s->receiver) ||
        s->receiver.frame.type != HP_DATA)
        return NULL;
    return hp_receiver_head(&s->receiver, &wrong) == HOOP_SUCCESS ? &s->receiver.frame : NULL;
}

void
hp_stripe_cut(hp_stripe *s)
{
    if (s->medium.silence.since && !s->medium.eof)
        lost(s, ETIMEDOUT);
}

void
hp_stripe_free(hp_stripe *s)
{
    if (!s)
        return;
    hp_watch_free(s->watch);
    hp_medium_end(&s->medium);
    free(s);
}
