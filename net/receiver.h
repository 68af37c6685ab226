/* SPDX-License-Identifier: MIT */
/*
 * receiver: what a stripe makes of the bytes that arrive. It says where the next bytes shall go, is told how many came,
 * puts heads together, checks them against the awaited frame, and says what has happened. Pure: the stripe reads from
 * the socket. The same bytes in other parts give the same events.
 *
 *   hp_receiver_places -> hp_receiver_kept, or else read into them -> hp_receiver_take -> act on the event
 */
#ifndef HP_RECEIVER_H
#define HP_RECEIVER_H

#include "net/post.h"

enum {
    HP_RECEIVER_PLACES = 1 + HP_IOV_ONCE,
    HP_RECEIVER_KEPT = 512 /* behind a HP_TAKEN another one, and last words: ABORT at most; no data */
};

typedef struct hp_receiver {
    int self, peer; /* ranks, for messages */
    int in_body;    /* the head is complete, and was accepted */
    int ended;      /* a control frame other than HP_TAKEN ends the data direction: what follows is dropped */
    uint32_t body_at, body_most; /* bytes of the body, and the most of them over any connection */
    uint32_t first_read;         /* bytes of a head to ask for where none is awaited */
    size_t head_at;              /* bytes of the head that are here */
    hp_frame frame;              /* the decoded head, as far as it is here */
    size_t kept_at, kept_n;      /* bytes that were read together with a HP_TAKEN, and lie behind it: taken, and all */
    uint8_t head[HP_COMMON_BYTES + HP_CONTROL_MAX + 4]; /* behind a data frame's head a small body is read */
    uint8_t kept[HP_RECEIVER_KEPT];
} hp_receiver;

typedef enum hp_event {
    HP_EVENT_NONE,    /* more bytes are needed */
    HP_EVENT_POST,    /* the post has all its bytes, and they are right as far as a checksum tells */
    HP_EVENT_CONTROL, /* a control frame whose checksum is right */
    HP_EVENT_FAULT    /* the error is filled except for its ranks; the receiver is unusable from now on */
} hp_event;

typedef struct hp_received {
    hp_event event;
    uint32_t progress;        /* bytes of the post's body that had never come before */
    hp_control_frame control; /* CONTROL: its payload is valid until the next call */
} hp_received;

void hp_receiver_init(hp_receiver *receiver, int self, int peer);
void hp_receiver_again(hp_receiver *receiver); /* another connection begins, with the frame that is not complete */

/*
 * Lists where the next bytes go, at most HP_RECEIVER_PLACES. 0: nothing can be read before there is a post; if there is
 * one, hp_receiver_take is to be called with 0 bytes. post: the current one; NULL: none is awaited yet. Once it was
 * passed it stays until its event.
 */
int hp_receiver_places(hp_receiver *receiver, const hp_post *post, struct iovec *places);

/* Bytes that were read before come first: it puts them into the places. Returns how many, 0: there are none. */
size_t hp_receiver_kept(hp_receiver *receiver, const struct iovec *places, int count);

/*
 * Without a post, and full: decodes the head into receiver->frame, so that a post can be made for it. An error is
 * HP_EVENT_FAULT's.
 */
hoop_result hp_receiver_head(hp_receiver *receiver, hoop_error *error);

/* n bytes lie in the places listed last, for the same post. The post's memory may hold them though they are refused. */
hp_received hp_receiver_take(hp_receiver *receiver, const hp_post *post, size_t n, hoop_error *error);

/* Bytes of the current body that are missing; 0 between bodies. */
uint32_t hp_receiver_body_left(const hp_receiver *receiver, const hp_post *post);

int hp_receiver_is_full(const hp_receiver *receiver); /* without a post, a head is complete: no more can be read */

#endif
