/* SPDX-License-Identifier: MIT */
/*
 * sender: what a stripe writes for its posts. It makes a frame of each, says where the next bytes lie, and is told how many
 * were written. Pure: the stripe writes to the socket. Frames are counted from 0, for each stripe.
 *
 *   hp_sender_begin -> hp_sender_places -> write them -> hp_sender_wrote
 *
 * With `unacked`, a broken connection loses nothing: a frame is kept until the peer has taken it, a small one there, a large
 * one in its post, which is not done before. hp_sender_again goes back to the first frame that was not taken.
 */
#ifndef HP_SENDER_H
#define HP_SENDER_H

#include "net/post.h"
#include "net/unacked.h"

enum { HP_SENDER_PLACES = 1 + HP_IOV_ONCE };

typedef struct hp_sender {
    uint64_t next;       /* the current frame */
    uint64_t whole;      /* so many frames were written whole once, */
    size_t whole_at;     /* and so many bytes of the one after them: written again they are no progress */
    uint64_t taken;      /* with `unacked`: the peer has said that it has taken so many */
    hp_unacked *unacked; /* the owner's; NULL: nothing is sent again */
    int full;            /* a frame waits until the peer has taken more */
    int in_frame;        /* the current frame was begun: it has frame_n bytes, the first front_n in one place */
    const uint8_t *front;
    size_t front_n, frame_n, frame_at;
    uint8_t head[HP_DATA_HEAD_CALL + HP_SMALL_BYTES]; /* without `unacked`: the head, and a small body behind it */
} hp_sender;

typedef struct hp_wrote {
    uint64_t progress; /* bytes of payload that were never written before */
    int done;          /* the frame is complete, and its post is done: its memory is the caller's again */
} hp_wrote;

/* Makes the current frame of the post. 0: there is no room until the peer has taken more. */
int hp_sender_begin(hp_sender *sender, hp_post *post);
int hp_sender_places(const hp_sender *sender, const hp_post *post, struct iovec places[HP_SENDER_PLACES]);
hp_wrote hp_sender_wrote(hp_sender *sender, const hp_post *post, size_t n);

/* The peer has taken so many frames, and their large posts are done. Returns 0 if that cannot be. */
int hp_sender_set_taken(hp_sender *sender, uint64_t frames);
void hp_sender_again(hp_sender *sender);

#endif
