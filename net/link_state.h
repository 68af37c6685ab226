/* SPDX-License-Identifier: MIT */
/*
 * link_state: what a link (link.h) and its stripes share: the posts, how far they are, and how the link ended, with its
 * error. The first ending stays. Pure.
 */
#ifndef HP_LINK_STATE_H
#define HP_LINK_STATE_H

#include "base/count.h"
#include "net/post.h"

enum { HP_STRIPES_MAX = 16, HP_HEARTBEATS_ROOM = 8 * HP_HEARTBEATS_BYTES };

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

/* Its owner reads it. */
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
    int repaired;               /* a connection that breaks is made again */
    int gave_up; /* no more, and the peer may not know it: the loss is told even if nothing is awaited here */
    int polled;  /* read also where no post and no wake-up asks for it: the owner waits for what the peer sends */
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

/* NULL: it was not posted yet. */
static inline hp_post *
hp_link_post_at(const hp_link *link, uint64_t number)
{
    return number < link->posted ? &link->posts[number & (link->capacity - 1)] : NULL;
}

/* Bytes of payload have moved for the first time. */
static inline void
hp_link_moved(hp_link *link, uint64_t bytes)
{
    link->bytes += bytes;
    if (link->total)
        hp_count_add(link->total, bytes);
}

/* The connection ended: the peer has left, or it is a symptom. number: errno; 0: the peer closed it. NULL is fine. */
void hp_link_lost(hp_link *link, int left, int number);
/* The peer passes on a first cause. NULL is fine. */
void hp_link_aborted(hp_link *link, const hoop_error *cause);
/*
 * What the peer sent is wrong. The link's error has the code and the sentence; this adds the ranks and the operation of the
 * current post, which may be NULL.
 */
void hp_link_fault(hp_link *link, const hp_post *post);
/* It is not repaired any more, nor its twin. tell: the peer may still wait, so a loss counts even if nothing is awaited here. */
void hp_link_give_up(hp_link *link, int tell);
/* It is a frame of this type, which may not come now. */
void hp_link_unexpected(hp_link *link, const hp_post *post, int type);

#endif
