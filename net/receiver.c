/* SPDX-License-Identifier: MIT */
/*
 * receiver: see receiver.h. One read fills {head, body}. The size of the head is guessed from the post: where another
 * head comes, its end lies in the post's memory and is copied back; so is what lies behind a HP_TAKEN.
 */
#include "net/receiver.h"

#include "base/err.h"
#include "net/frame.h"

#include <string.h>

void
hp_receiver_init(hp_receiver *r, int self, int peer)
{
    r->self = self;
    r->peer = peer;
    r->body_most = 0;
    r->first_read = HP_COMMON_BYTES;
    hp_receiver_again(r);
}

void
hp_receiver_again(hp_receiver *r)
{
    r->in_body = r->ended = 0;
    r->body_at = 0;
    r->head_at = 0;
    r->kept_at = r->kept_n = 0;
}

static const hp_received nothing = {.event = HP_EVENT_NONE}, fault = {.event = HP_EVENT_FAULT};

/* --- where the next bytes go --- */

/* Of the head; as long as its type is not known, of the head that the post lets expect. */
static size_t
head_left(const hp_receiver *r, const hp_post *post)
{
    size_t size = 0;
    if (r->in_body)
        return 0;
    if (r->head_at < HP_COMMON_BYTES)
        size = post ? hp_frame_head(post->frame.flags) : r->first_read;
    else
        size = r->frame.type == HP_DATA ? hp_frame_head(r->frame.flags) : HP_COMMON_BYTES + r->frame.length;
    return size > r->head_at ? size - r->head_at : 0;
}

/* A small body is read behind the head, and copied from there: cheaper than an iovec. */
static int
follows_head(const hp_receiver *r, const hp_post *post, size_t head)
{
    return hp_post_is_small(post) && r->head_at + head + post->bytes <= sizeof(r->head);
}

int
hp_receiver_places(hp_receiver *r, const hp_post *post, struct iovec *places)
{
    size_t head = head_left(r, post);
    int n = head > 0;
    if (r->ended) {
        places[0] = (struct iovec){r->head, sizeof(r->head)};
        return 1;
    }
    if (!r->in_body && head == 0)
        return 0;
    places[0] = (struct iovec){r->head + r->head_at, head};
    if (post && follows_head(r, post, head)) {
        places[0].iov_len += post->bytes - r->body_at;
        return 1;
    }
    return post ? n + hp_iov_list(&post->body, r->body_at, post->bytes, places + n, HP_IOV_ONCE) : n;
}

size_t
hp_receiver_kept(hp_receiver *r, const struct iovec *places, int count)
{
    size_t n = 0;
    for (int k = 0; k < count && r->kept_at < r->kept_n; k++) {
        size_t left = r->kept_n - r->kept_at, here = places[k].iov_len < left ? places[k].iov_len : left;
        memcpy(places[k].iov_base, r->kept + r->kept_at, here);
        r->kept_at += here;
        n += here;
    }
    if (n == 0 && count > 0)
        r->kept_at = r->kept_n = 0;
    return n;
}

/* --- what has come --- */

/* What lies behind a whole frame: the rest of the head's bytes, and those that were spilled. 0: there is no room for it. */
static int
keep(hp_receiver *r, const hp_post *post, uint32_t spilled)
{
    size_t size = HP_COMMON_BYTES + r->frame.length, rest = r->head_at - size;
    if (r->kept_n > 0) { /* it came from there */
        r->kept_at -= rest + spilled;
        return 1;
    }
    if (rest + spilled > sizeof(r->kept))
        return 0;
    memcpy(r->kept, r->head + size, rest);
    if (spilled > 0)
        hp_iov_copy(&post->body, spilled, r->kept + rest);
    r->kept_n = rest + spilled;
    return 1;
}

/* Its length was checked with its first bytes: it fits. */
static hp_received
take_control(hp_receiver *r, const hp_post *post, uint32_t spilled, hoop_error *error)
{
    const uint8_t *payload = r->head + HP_COMMON_BYTES;
    if (r->head_at < HP_COMMON_BYTES + r->frame.length)
        return nothing;
    if (hp_frame_get_control(&r->frame, payload, error) != HOOP_SUCCESS)
        return fault;
    r->ended = r->frame.type != HP_TAKEN;
    if (!r->ended && (r->frame.length > HP_TAKEN_BYTES + 4 || !keep(r, post, spilled))) {
        hp_err_set(error, HOOP_ERR_PROTOCOL, "rank %d has sent rank %d more than it may behind its last frame", r->peer,
                   r->self);
        return fault;
    }
    r->head_at = 0;
    return (hp_received){.event = HP_EVENT_CONTROL, .control = {r->frame.type, payload, r->frame.length - 4}};
}

static hp_received
take_body(hp_receiver *r, const hp_post *post, uint32_t n, hoop_error *error)
{
    hp_received received = {0};
    r->body_at += n;
    if (r->body_at > r->body_most) {
        received.progress = r->body_at - r->body_most;
        r->body_most = r->body_at;
    }
    if (r->body_at < post->bytes)
        return received;
    if ((r->frame.flags & HP_FRAME_PAYLOAD_CRC) && hp_iov_crc(&post->body, post->bytes) != r->frame.payload_crc) {
        hp_err_set(error, HOOP_ERR_CORRUPT, "the bytes of operation %llu from rank %d to rank %d changed on the way",
                   (unsigned long long)hp_frame_operation(&post->frame), r->peer, r->self);
        received.event = HP_EVENT_FAULT;
        return received;
    }
    r->in_body = 0;
    r->body_at = r->body_most = 0;
    r->head_at = 0;
    received.event = HP_EVENT_POST;
    return received;
}

/* The head of a data frame is here, or a part of it; with spilled bytes of its body. */
static hp_received
take_head(hp_receiver *r, const hp_post *post, uint32_t spilled, hoop_error *error)
{
    if (!post || head_left(r, post) > 0)
        return nothing;
    if (hp_frame_get_data(&r->frame, r->head + HP_COMMON_BYTES, error) != HOOP_SUCCESS)
        return fault;
    if (hp_frame_check(&r->frame, &post->frame, post->bytes, r->self, r->peer, error) != HOOP_SUCCESS)
        return fault;
    r->in_body = 1;
    return take_body(r, post, spilled, error);
}

hoop_result
hp_receiver_head(hp_receiver *r, hoop_error *error)
{
    return hp_frame_get_data(&r->frame, r->head + HP_COMMON_BYTES, error);
}

hp_received
hp_receiver_take(hp_receiver *r, const hp_post *post, size_t n, hoop_error *error)
{
    size_t head = head_left(r, post), in_head = n < head ? n : head;
    uint32_t spilled = (uint32_t)(n - in_head);
    int known = r->head_at >= HP_COMMON_BYTES;
    if (r->ended)
        return nothing;
    if (spilled > 0 && follows_head(r, post, head))
        memcpy(post->body.data + r->body_at, r->head + r->head_at + head, spilled);
    if (r->in_body)
        return take_body(r, post, spilled, error);
    r->head_at += in_head;
    if (r->head_at < HP_COMMON_BYTES)
        return nothing;
    if (!known && hp_frame_get_common(&r->frame, r->head, error) != HOOP_SUCCESS)
        return fault;
    /*
     * Where the head is longer than the post let expect, its end was read into the post's body. It is copied back; the rest
     * of the body never moves, because such a frame is refused.
     */
    size_t missing = head_left(r, post), back = spilled < missing ? spilled : missing;
    if (back > 0)
        hp_iov_copy(&post->body, (uint32_t)back, r->head + r->head_at);
    r->head_at += back;
    spilled -= (uint32_t)back;
    return r->frame.type == HP_DATA ? take_head(r, post, spilled, error) : take_control(r, post, spilled, error);
}

/* --- for the stripe's watch --- */

uint32_t
hp_receiver_body_left(const hp_receiver *r, const hp_post *post)
{
    return post && r->in_body ? post->bytes - r->body_at : 0;
}

int
hp_receiver_is_full(const hp_receiver *r)
{
    return !r->in_body && r->head_at >= HP_COMMON_BYTES && head_left(r, NULL) == 0;
}
