/* SPDX-License-Identifier: MIT */
/*
 * stripe: see stripe.h. One state machine for each direction. The sender, sender.c, says which bytes are written; the
 * receiver, receiver.c, says where one read puts its bytes and what has come. A direction without posts is read when the
 * watch saw it readable, and so is a connection beside shared memory.
 */
#include "net/stripe.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/wire.h"
#include "net/socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    TRY_AGAIN = 16,
    DRAIN_BYTES = 1 << 20, /* read at most so much in one call: a peer may send faster than this reads */
    IDLE_BYTES = 512,
    DELAY_ACKS_EVERY = 16 /* posts */
};

/* The number of this stripe's frame in the link. */
static uint64_t
number_of(const hp_stripe *s, const hp_link *link, uint64_t frame)
{
    return frame * (uint64_t)link->stripes + (uint64_t)s->number;
}

static hp_post *
to_send(const hp_stripe *s)
{
    return s->out ? hp_link_post_at(s->out, number_of(s, s->out, s->sender.next)) : NULL;
}

static hp_post *
awaited(const hp_stripe *s)
{
    return s->in ? hp_link_post_at(s->in, number_of(s, s->in, s->taken)) : NULL;
}

/*
 * The rank that has accepted a connection sends no data before it has heard from the other one: the last message of the
 * handshake may have been lost, and then the other one dials again.
 */
static int
may_send(const hp_stripe *s)
{
    return s->out && !s->resuming && (!s->accepted || s->heard);
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

/* Takes the connection over. 0: out of memory. */
static int
begin(hp_stripe *s, int fd)
{
    hp_medium_begin(&s->medium, fd);
    s->watch = hp_watch_new(s->loop, fd, on_ready, s);
    /*
     * Watched once now: libevent allocates for a descriptor when it is first watched, and later calls must not
     * allocate.
     */
    return s->watch && hp_watch_set(s->watch, HP_READ) == 0 && hp_watch_set(s->watch, 0) == 0;
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
    s->number = number;
    s->accepted = !link->dials;
    hp_receiver_init(&s->receiver, link->self, link->peer);
    if (link->owner) /* every data frame there has its call */
        s->receiver.first_read = HP_DATA_HEAD_CALL;
    if (begin(s, fd))
        return s;
    hp_stripe_free(s);
    return NULL;
}

int
hp_stripe_repair(hp_stripe *s)
{
    s->unacked = s->sender.unacked = hp_unacked_new(!s->out ? 0 : s->in ? HP_UNACKED_SHARED : HP_UNACKED_ONE_WAY);
    return s->unacked != NULL;
}

/* What this connection brought is wrong: the link that receives fails, or the one that has no other. */
static hp_link *
receiving(const hp_stripe *s)
{
    return s->in ? s->in : s->out;
}

static void
fault(const hp_stripe *s)
{
    hp_link_fault(receiving(s), s->in ? awaited(s) : to_send(s));
}

/* The peer, which may not know of the loss, gets a reset for what it sends. */
static void
disconnect(hp_stripe *s)
{
    hp_watch_free(s->watch);
    s->watch = NULL;
    hp_medium_end(&s->medium);
    s->medium.fd = -1;
}

/* End of file or a reset, which is a symptom: the cause may still arrive from elsewhere. */
static void
lost(hp_stripe *s, int number)
{
    if (s->unacked)
        disconnect(s);
    else if (receiving(s)->repaired) /* its other stripes are */
        hp_link_give_up(receiving(s), 0);
    s->medium.eof = 1;
    hp_link_lost(s->in, s->left, number);
    hp_link_lost(s->out, s->left, number);
}

static void
deny(const hp_stripe *s, int type)
{
    hp_link_unexpected(receiving(s), s->in ? awaited(s) : to_send(s), type);
}

/* So many frames, at most `most`. Large posts are done now; small ones were before, and their places may have others. */
static int
peer_took(hp_stripe *s, uint64_t frames, uint64_t most)
{
    uint64_t before = s->sender.taken;
    if (frames > most || !hp_sender_set_taken(&s->sender, frames))
        return 0;
    for (uint64_t frame = before; frame < frames; frame++) {
        uint64_t number = number_of(s, s->out, frame);
        if (number >= s->out->done)
            hp_link_post_at(s->out, number)->done = 1;
    }
    return 1;
}

static void
on_control(hp_stripe *s, const hp_control_frame *frame)
{
    hp_link *idle = s->in ? NULL : s->out;
    hoop_error cause;
    hp_err_clear(&cause);
    if (frame->type == HP_LEAVE) {
        s->left = 1;
    } else if (frame->type == HP_ACK && idle && s->unacked && frame->n == HP_TAKEN_BYTES &&
               peer_took(s, hp_get64(frame->payload), s->sender.next)) {
        /* what it has taken is done */
    } else if (frame->type == HP_TAKEN && s->unacked && frame->n == 0) {
        s->asked = s->owes_answer = 1;
    } else if (frame->type == HP_TAKEN && s->sender.unacked && s->asks == HP_ASK_SENT && frame->n == HP_TAKEN_BYTES &&
               peer_took(s, hp_get64(frame->payload), s->sender.next)) {
        s->asks = HP_ASK_ANSWERED;
    } else if (frame->type == HP_ABORT && hp_abort_get(&cause, frame->payload, frame->n)) {
        hp_link_aborted(s->in, &cause);
        hp_link_aborted(s->out, &cause);
    } else if (frame->type == HP_WAKE && s->medium.shm) {
        /* this process is awake */
    } else if (frame->type == HP_TICK && idle && frame->n > 0 && frame->n <= HP_HEARTBEATS_BYTES) {
        if (!idle->heartbeats)
            return;
        /* The link's owner reads them from time to time. When the room is full, they replace the older ones. */
        if (idle->heartbeats_n + frame->n > HP_HEARTBEATS_ROOM)
            idle->heartbeats_n = 0;
        memcpy(idle->heartbeats + idle->heartbeats_n, frame->payload, frame->n);
        idle->heartbeats_n += frame->n;
    } else if (frame->type == HP_CREDIT && idle && idle->owner && frame->n == HP_CREDIT_BYTES) {
        if (idle->owner->credit(idle->owner->arg, frame->payload, &idle->error) != HOOP_SUCCESS)
            fault(s);
    } else {
        deny(s, frame->type);
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
    const uint8_t *in = bytes;
    size_t n = got > 0 ? (size_t)got : 0;
    hp_control_frame frame;
    int whole;
    if (got <= 0)
        s->readable = 0;
    if (got < 0 && !is_over(s, errno))
        return 0;
    if (got <= 0) {
        s->medium.over = 1; /* only noted where memory has to be read first */
        s->medium.number = got < 0 ? errno : 0;
        if (!s->in)
            lost(s, s->medium.number);
        return 1;
    }
    s->heard = 1;
    s->readable &= n == sizeof(bytes) || !s->medium.shm; /* the watch sees it again */
    while ((whole = hp_frame_read(&s->control.in, &in, &n, &frame, &receiving(s)->error)) > 0)
        on_control(s, &frame);
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
    int follows = s->medium.shm && s->out && !s->sender.in_frame && (type == HP_ABORT || type == HP_LEAVE);
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
    if (!s->sender.in_frame || s->medium.shm) /* no other frame can be written in the middle of a data frame */
        write_control(s);
    return 1;
}

/* --- receiving --- */

static int
tell_count(hp_stripe *s, int type)
{
    uint8_t payload[HP_TAKEN_BYTES];
    hp_put64(payload, s->taken);
    return hp_stripe_send_control(s, type, payload, sizeof(payload));
}

static void
send_ack(hp_stripe *s)
{
    if (!tell_count(s, HP_ACK))
        return;
    s->owes_ack = 0;
    s->owed_frames = s->owed_bytes = 0;
}

/* What one end says of itself. It asks after its last frame, so the answer comes when that was taken. */
static void
tell(hp_stripe *s)
{
    if (s->owes_ack)
        send_ack(s);
    if (s->owes_answer)
        s->owes_answer = !tell_count(s, HP_TAKEN);
    if (s->asks == HP_ASK_DUE && !s->resuming && !s->owes_ack && !to_send(s) &&
        hp_stripe_send_control(s, HP_TAKEN, NULL, 0))
        s->asks = HP_ASK_SENT;
}

/* A large frame waits for an ACK, and where both directions share the stripe there is none. */
static void
stop_repair(hp_stripe *s)
{
    s->sender.unacked = NULL;
    hp_link_give_up(s->in, 1);
}

/*
 * A frame was taken. Where both directions share the stripe, each data frame says how many this side has taken, modulo 2^16;
 * else ACKs do.
 */
static void
tell_taken(hp_stripe *s, uint32_t bytes)
{
    if (s->out) {
        /* a frame that is sent again has an older count */
        uint16_t more = (uint16_t)(s->receiver.frame.taken - s->sender.taken);
        if (bytes > HP_UNACKED_LARGE)
            stop_repair(s);
        else if (s->sender.unacked && more <= INT16_MAX && !peer_took(s, s->sender.taken + more, s->sender.next))
            deny(s, HP_DATA);
        return;
    }
    s->owed_frames++;
    s->owed_bytes += HP_DATA_HEAD_CALL + bytes;
    s->owes_ack |= bytes > HP_UNACKED_LARGE || hp_unacked_is_due(s->owed_frames, s->owed_bytes);
    if (s->owes_ack)
        send_ack(s);
}

/* Takes what one read brings. Returns 1 if something moved. */
static int
receive_once(hp_stripe *s)
{
    struct iovec places[HP_RECEIVER_PLACES];
    hp_post *post = awaited(s);
    int count = hp_receiver_places(&s->receiver, post, places);
    ssize_t kept = (ssize_t)hp_receiver_kept(&s->receiver, places, count);
    ssize_t got = kept || count == 0 ? kept : hp_medium_read(&s->medium, places, count);
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
    hp_link_moved(s->in, what.progress);
    if (what.event == HP_EVENT_FAULT)
        fault(s);
    if (what.event == HP_EVENT_CONTROL)
        on_control(s, &what.control);
    if (what.event != HP_EVENT_POST)
        return 1;
    post->done = 1;
    s->taken++;
    if (s->unacked)
        tell_taken(s, post->bytes);
    if (s->taken % DELAY_ACKS_EVERY == 0)
        hp_medium_delay_acks(&s->medium);
    return 1;
}

/* --- a connection that was made again --- */

int
hp_stripe_resume(hp_stripe *s, int fd, uint16_t generation)
{
    uint8_t payload[HP_TAKEN_BYTES];
    disconnect(s);
    s->readable = s->blocked = s->heard = 0;
    s->owed_frames = s->owed_bytes = 0;
    s->owes_ack = s->owes_answer = 0;
    s->asks = s->asks == HP_ASK_SENT ? HP_ASK_DUE : s->asks;
    s->resume_n = 0;
    s->resuming = 1;
    s->generation = generation;
    s->control = (hp_control){0};
    s->sender.in_frame = 0;
    hp_receiver_again(&s->receiver);
    if (!begin(s, fd))
        return 0;
    hp_put64(payload, s->taken);
    hp_control_add(&s->control, fd, HP_RESUME, payload, sizeof(payload));
    return 1;
}

/* Of the first frame, and not a byte more: the next one may be data. */
static int
read_resume(hp_stripe *s)
{
    hp_frame_reader reader = {0};
    struct iovec place = {s->resume + s->resume_n, sizeof(s->resume) - s->resume_n};
    const uint8_t *in = s->resume;
    size_t n = sizeof(s->resume);
    hp_control_frame frame = {0};
    ssize_t got = hp_medium_read(&s->medium, &place, 1);
    if (got < 0 && !is_over(s, errno)) {
        s->readable = 0;
        return 0;
    }
    if (got <= 0) {
        lost(s, got < 0 ? errno : 0);
        return 1;
    }
    s->heard = 1;
    s->resume_n += (size_t)got;
    if (s->resume_n < sizeof(s->resume))
        return 1;
    s->resuming = 0;
    if (hp_frame_read(&reader, &in, &n, &frame, &receiving(s)->error) < 0) {
        fault(s);
    } else if (frame.type != HP_RESUME || frame.n != HP_TAKEN_BYTES ||
               (s->out && !peer_took(s, hp_get64(frame.payload), s->sender.whole))) {
        deny(s, frame.type);
    } else {
        hp_sender_again(&s->sender);
    }
    return 1;
}

/* Reads what there is, whoever it is for. */
static int
take(hp_stripe *s)
{
    if (s->resuming)
        return read_resume(s);
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
    struct iovec places[HP_SENDER_PLACES];
    hp_post *post = to_send(s);
    if (hp_control_waits(&s->control) && (!s->sender.in_frame || s->medium.shm))
        write_control(s);
    if (!post || !may_send(s) || (s->blocked && --s->blocked > 0))
        return 0;
    if (!s->sender.in_frame && hp_control_waits(&s->control) && !s->medium.shm) /* a part of one is written */
        return 0;
    if (!s->sender.in_frame && s->sender.unacked && s->in) {
        post->frame.taken = (uint16_t)s->taken;
        if (post->bytes > HP_UNACKED_LARGE && s->sender.next == s->sender.whole)
            stop_repair(s);
    }
    if (!s->sender.in_frame && !hp_sender_begin(&s->sender, post))
        return 0;
    ssize_t n = hp_medium_write(&s->medium, places, hp_sender_places(&s->sender, post, places));
    int number = errno;
    if (n >= 0) {
        hp_wrote wrote = hp_sender_wrote(&s->sender, post, (size_t)n);
        hp_link_moved(s->out, wrote.progress);
        post->done |= wrote.done;
        wake_peer(s);
        return 1;
    }
    if (number == EAGAIN)
        s->blocked = s->medium.shm ? 0 : TRY_AGAIN; /* to look at memory costs no system call */
    if (is_over(s, number)) {
        for (int reads = 0; reads < DRAIN_BYTES / IDLE_BYTES && take(s) && !s->medium.eof; reads++)
            ; /* the peer's ABORT may still lie in the receive queue */
        if (!s->medium.eof)
            lost(s, number);
        return 1;
    }
    return 0;
}

/* No more can be written, or a large frame is not taken yet. */
static int
awaits_ack(const hp_stripe *s)
{
    return s->unacked && !s->in && s->out->done < s->out->posted && (s->sender.full || !to_send(s));
}

int
hp_stripe_move(hp_stripe *s, const hp_link *link)
{
    if (s->medium.eof || s->medium.shut || link->state == HP_LINK_FAULT)
        return 0;
    hp_medium_awake(&s->medium);
    tell(s);
    if (link == s->in) {
        if (hp_control_waits(&s->control) && !s->blocked && (!s->sender.in_frame || s->medium.shm))
            write_control(s);
        return may_read(s) ? take(s) : 0;
    }
    int moved = send_once(s);
    if ((s->readable || s->out->polled || awaits_ack(s) || (s->in && s->medium.shm && may_read(s))) && !s->medium.eof)
        moved |= take(s);
    return moved;
}

static void
unwatch(hp_stripe *s)
{
    if (s->watch)
        hp_watch_set(s->watch, 0);
}

void
hp_stripe_arm(hp_stripe *s)
{
    /* without a post one head is read ahead; then TCP's window, or the full ring, holds the sender back */
    int full = s->in && !awaited(s) && hp_receiver_is_full(&s->receiver);
    hp_post *post = may_send(s) && !s->sender.full ? to_send(s) : NULL;
    uint32_t left = hp_receiver_body_left(&s->receiver, awaited(s));
    int shares = s->medium.shm != NULL, writes = (post && !shares) || hp_control_waits(&s->control);
    if (s->medium.eof || s->medium.shut) {
        unwatch(s);
        return;
    }
    uint32_t bytes = !s->in || (full && shares) ? 0 : left ? left : 1;
    const hp_sender *out = &s->sender;
    if (hp_medium_await(&s->medium, bytes,
                        !post           ? 0
                        : out->in_frame ? (uint32_t)(out->frame_n - out->frame_at) + 1
                                        : 1))
        hp_loop_wake(s->loop); /* there is something to move after all */
    hp_watch_set(s->watch, s->medium.over ? 0 : (full && !shares ? 0 : HP_READ) | (writes ? HP_WRITE : 0));
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

int
hp_stripe_cut(hp_stripe *s, int once)
{
    uint64_t at = s->taken + s->sender.taken + 1;
    if (!s->medium.silence.since || s->medium.eof || (once && s->cut_at == at))
        return 0;
    s->cut_at = at;
    lost(s, ETIMEDOUT);
    return 1;
}

void
hp_stripe_free(hp_stripe *s)
{
    if (!s)
        return;
    hp_watch_free(s->watch);
    hp_medium_end(&s->medium);
    free(s->unacked);
    free(s);
}
