/* SPDX-License-Identifier: MIT */
/* sender: see sender.h. */
#include "net/sender.h"

static int
is_copied(const hp_sender *s, const hp_post *post)
{
    return s->unacked ? post->bytes <= HP_UNACKED_LARGE : hp_post_is_small(post);
}

int
hp_sender_begin(hp_sender *s, hp_post *post)
{
    const hp_sent_frame *kept = s->unacked ? hp_unacked_find(s->unacked, s->next) : NULL;
    if (kept) {
        s->front = s->unacked->memory + kept->at;
        s->front_n = s->frame_n = kept->bytes;
    } else {
        uint32_t head = hp_frame_head(post->frame.flags), copied = is_copied(s, post) ? post->bytes : 0;
        int keeps = s->unacked && is_copied(s, post);
        uint8_t *front = keeps ? hp_unacked_add(s->unacked, s->next, head + copied) : s->head;
        s->full = !front;
        if (!front)
            return 0;
        if (post->frame.flags & HP_FRAME_PAYLOAD_CRC)
            post->frame.payload_crc = hp_iov_crc(&post->body, post->bytes);
        hp_frame_put_data(front, &post->frame, post->bytes);
        if (copied > 0)
            hp_iov_copy(&post->body, copied, front + head);
        s->front = front;
        s->front_n = head + copied;
        s->frame_n = head + post->bytes;
    }
    s->frame_at = 0;
    s->in_frame = 1;
    return 1;
}

int
hp_sender_places(const hp_sender *s, const hp_post *post, struct iovec places[HP_SENDER_PLACES])
{
    size_t left = s->frame_at < s->front_n ? s->front_n - s->frame_at : 0;
    int n = left > 0;
    if (left > 0)
        places[0] = (struct iovec){(uint8_t *)(uintptr_t)s->front + s->frame_at, left};
    if (s->front_n == s->frame_n)
        return n;
    uint32_t at = left > 0 ? 0 : (uint32_t)(s->frame_at - s->front_n);
    return n + hp_iov_list(&post->body, at, post->bytes, places + n, HP_IOV_ONCE);
}

hp_wrote
hp_sender_wrote(hp_sender *s, const hp_post *post, size_t n)
{
    hp_wrote wrote = {0};
    int is_new = s->next == s->whole;
    s->frame_at += n;
    if (is_new && s->frame_at > s->whole_at) {
        size_t head = s->frame_n - post->bytes, from = s->whole_at > head ? s->whole_at : head;
        wrote.progress = s->frame_at > from ? s->frame_at - from : 0;
        s->whole_at = s->frame_at;
    }
    if (s->frame_at < s->frame_n)
        return wrote;
    wrote.done = is_new && (!s->unacked || is_copied(s, post));
    s->in_frame = 0;
    s->next++;
    if (is_new) {
        s->whole = s->next;
        s->whole_at = 0;
    }
    return wrote;
}

int
hp_sender_set_taken(hp_sender *s, uint64_t frames)
{
    if (frames < s->taken || frames > s->whole)
        return 0;
    s->taken = frames;
    s->full = 0;
    hp_unacked_drop(s->unacked, frames);
    return 1;
}

void
hp_sender_again(hp_sender *s)
{
    s->next = s->taken;
    s->full = 0;
    s->in_frame = 0;
}
