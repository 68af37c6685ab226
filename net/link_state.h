/* SPDX-License-Identifier: MIT */
/*
 * link_state: what a link (link.h) and its stripes (stripe.h) share: the posts, how far they are, and what is wrong.
 * The owner of the link reads it; link.c and the files below it write it.
 */
#ifndef HP_LINK_STATE_H
#define HP_LINK_STATE_H

#include "base/count.h"
#include "net/frame.h"
#include "net/iov.h"

enum { HP_STRIPES_MAX = 16, HP_HEARTBEATS_ROOM = 8 * HP_HEARTBEATS_BYTES };
enum { HP_SMALL_BYTES = 2048 }; /* a payload up to this is copied next to its head: cheaper than an iovec */

typedef struct hp_stripe hp_stripe;

typedef enum hp_link_state {
    HP_LINK_WANTED,  /* no connection yet: posts wait; one of both ranks must dial */
    HP_LINK_DIALING, /* the owner dials */
    HP_LINK_OPEN,
    HP_LINK_LEFT,  /* the peer sent LEAVE and closed */
    HP_LINK_LOST,  /* end of file or reset without a LEAVE: a symptom, the cause is elsewhere */
    HP_LINK_FAULT, /* this rank saw a mismatch, a wrong frame or changed bytes: error has the sentence */
    HP_LINK_ABORT  /* the peer passed on a first cause: error is that cause */
} hp_link_state;

typedef struct hp_post {
    hp_frame frame; /* the frame to send, or the one that must arrive */
    uint32_t bytes; /* payload */
    hp_iov body;
    int done;
} hp_post;

/* Whether the payload is small and in one place. */
static inline int
hp_post_is_small(const hp_post *post)
{
    return post->bytes <= HP_SMALL_BYTES && post->body.run >= post->bytes;
}

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
    uint8_t
        *heartbeats; /* payloads of TICKs received; the owner reads them and sets heartbeats_n to 0; NULL: not kept */
    size_t heartbeats_n;
    hp_stripe *stripe[HP_STRIPES_MAX];
} hp_link;

/* Payload has moved. */
static inline void
hp_link_count(hp_link *link, uint64_t bytes)
{
    link->bytes += bytes;
    if (link->total)
        hp_count_add(link->total, bytes);
}

/* Error has the code and sentence of what is wrong: adds the ranks and the operation of the post, and ends the link. */
void hp_link_fault(hp_link *link, const hp_post *post);

/*
 * End of file or a reset (errno `number`), which is a symptom: the cause may still arrive from elsewhere. left: the
 * peer has sent LEAVE before.
 */
void hp_link_lost(hp_link *link, int left, int number);

/* The link's owner reads them from time to time. When the room is full, new heartbeats replace the older ones. */
void hp_link_keep_heartbeats(hp_link *link, const uint8_t *heartbeats, size_t n);

#endif
