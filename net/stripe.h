/* SPDX-License-Identifier: MIT */
/*
 * stripe: one TCP connection of a link, or of two links that share it, one for each direction. It sends each post, header
 * and payload, in one system call. It receives header and payload the same way, straight to their place, and compares
 * every header with the awaited one before the bytes are used. Control frames go between data frames; a direction
 * without a link carries nothing else.
 *
 * Between two processes that share memory (shm.h) the posts move through that, and the connection carries control frames
 * only. It wakes the other process, and its end is the end of the stripe, once what lies in memory is read.
 */
#ifndef HP_STRIPE_H
#define HP_STRIPE_H

#include "base/count.h"
#include "net/loop.h"
#include "net/medium.h"
#include "net/receiver.h"

enum { HP_STRIPES_MAX = 16, HP_HEARTBEATS_ROOM = 8 * HP_HEARTBEATS_BYTES };

typedef struct hp_stripe hp_stripe;
typedef void hp_kick_fn(void *arg); /* a connection can move something: the owner of the link is to drive */

typedef enum hp_link_state {
    HP_LINK_WANTED,  /* no connection yet: posts wait; one of both ranks must dial */
    HP_LINK_DIALING, /* the owner dials */
    HP_LINK_OPEN,
    HP_LINK_LEFT,  /* the peer sent LEAVE and closed */
    HP_LINK_LOST,  /* end of file or reset without a LEAVE: a symptom, the cause is elsewhere */
    HP_LINK_FAULT, /* this rank saw a mismatch, a wrong frame or changed bytes: error has the sentence */
    HP_LINK_ABORT  /* the peer passed on a first cause: error is that cause */
} hp_link_state;

/*
 * What the owner of a link for messages answers. A belt's link has no owner: there every frame is posted before it
 * comes. Both return HOOP_SUCCESS, or an error that is filled except for its ranks.
 */
typedef struct hp_link_owner {
    /* A frame comes: posts where its payload goes. */
    hoop_result (*head)(void *arg, const hp_frame *frame, hoop_error *error);
    /* The peer of a sending link sent an HP_CREDIT. */
    hoop_result (*credit)(void *arg, const uint8_t payload[HP_CREDIT_BYTES], hoop_error *error);
    void *arg;
} hp_link_owner;

/* What a link (link.h) and its stripes share: the posts, how far they are, and what is wrong. Its owner reads it. */
typedef struct hp_link {
    int sending;          /* 1: to the peer, 0: from it */
    int dials;            /* this rank dials its connections; 0: it accepts them */
    struct hp_link *twin; /* the other direction over the same connections; NULL: they have one direction */
    int self, peer;       /* rank numbers, for messages */
    int distance;
    int size;                   /* of the ring; > 0: an ABORT that names other ranks is corrected */
    int stripes;                /* K */
    uint32_t capacity;          /* posts in flight at most; a power of two */
    const hp_link_owner *owner; /* NULL: a belt's link */
    int polled; /* read also where no post and no wake-up asks for it: the owner waits for what the peer sends */
    hp_post *posts;
    uint64_t posted, done;
    uint64_t asked;  /* for the belt: in which of its calls it last asked this link to move */
    uint64_t bytes;  /* payload moved, for reports and stall warnings; */
    hp_count *total; /* and counted here too, by all links of a communicator and direction; NULL: nowhere */
    hp_link_state state;
    hoop_error error;
    uint8_t *heartbeats; /* payloads of TICKs received; the owner reads them and sets heartbeats_n to 0; NULL: none */
    size_t heartbeats_n;
    hp_stripe *stripe[HP_STRIPES_MAX];
} hp_link;

struct hp_stripe {
    hp_link *out, *in; /* whose posts it carries; NULL: only control frames go in that direction */
    hp_medium medium;
    hp_watch *watch;
    hp_loop *loop;
    hp_kick_fn *kick;
    void *kick_arg;
    uint64_t next_out, next_in; /* numbers of the current posts */
    int accepted, heard;        /* the peer has dialled it; a byte has come */
    int readable;               /* the watch saw it readable; cleared by EAGAIN */
    int blocked; /* > 0: the last write would have blocked; try again after so many moves, or when it is writable */
    int left;

    /* sending: the head of the current frame, and behind it a small body */
    uint8_t head[HP_DATA_HEAD_CALL + HP_SMALL_BYTES];
    size_t head_n, head_at; /* its size, and bytes of it that are sent */
    int in_body;            /* the head was made */
    uint32_t body_at;

    hp_receiver receiver;
    hp_control control; /* written between data frames; received here only in a direction without posts */
};

/*
 * Takes fd over, for the link and for its twin, if it has one. number: this stripe's index k; it carries posts k, k + K
 * ... NULL: out of memory, fd is closed.
 */
hp_stripe *hp_stripe_new(hp_link *link, int number, int fd, hp_loop *loop, hp_kick_fn *kick, void *arg);
int hp_stripe_move(hp_stripe *stripe, const hp_link *link); /* the link's posts, and what is readable; 1: moved */
void hp_stripe_arm(hp_stripe *stripe);
/* Queues a control frame; 0: no room. */
int hp_stripe_send_control(hp_stripe *stripe, int type, const void *payload, size_t n);
void hp_stripe_shut(hp_stripe *stripe);  /* writes and watches nothing more */
int hp_stripe_closed(hp_stripe *stripe); /* 1: the peer has all that was written, or has closed; drops what arrives */
const hp_frame *hp_stripe_unposted(hp_stripe *stripe); /* see hp_link_unposted */
void hp_stripe_cut(hp_stripe *stripe);
void hp_stripe_free(hp_stripe *stripe);

#endif
