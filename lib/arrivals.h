/* SPDX-License-Identifier: MIT */
/*
 * arrivals: messages of one peer that came before their receive, and their memory. It is bounded: what travels ahead
 * costs its size rounded up (hp_arrival_cost), and the peer may have HP_EAGER_ROOM of that unread; what is merely
 * offered costs a few bytes, and HP_OFFERS_MOST of those may be unread. Memory is used again.
 */
#ifndef HP_ARRIVALS_H
#define HP_ARRIVALS_H

#include "base/call.h"
#include "lib/matching.h"

enum {
    HP_EAGER_MOST = 64 << 10, /* bytes of a message that travels ahead of its receive, at most */
    HP_EAGER_ROOM = 1 << 20,  /* what the unread ones of a peer may cost together */
    HP_EAGER_LEAST = 256,     /* what a short one costs */
    HP_EAGER_CLASSES = 10,    /* costs are powers of two, from least to most; the first class are the offers */
    HP_OFFERS_MOST = 1 << 16
};

typedef struct hp_message hp_message;

typedef struct hp_arrival {
    hp_match match; /* by hp_message_key */
    hp_call call;
    uint64_t number; /* of the message, in its direction */
    uint64_t bytes;
    hp_message *receive; /* the receive that has come while its bytes were arriving */
    uint32_t cost;       /* 0: it is an offer, no bytes are here */
    int here;            /* all bytes are */
    struct hp_arrival *next_free;
    uint8_t data[]; /* `cost` bytes */
} hp_arrival;

/* All zero at the start. */
typedef struct hp_arrivals {
    hp_arrival *free[HP_EAGER_CLASSES];
    uint64_t allocated; /* bytes that are in use or free */
    uint64_t unread;    /* cost of those in use */
    uint64_t offers;    /* likewise, their number */
} hp_arrivals;

/* What a message of so many bytes, HP_EAGER_MOST at most, costs if it travels ahead. */
uint32_t hp_arrival_cost(uint64_t bytes);

/* One with room for `cost` bytes, 0: an offer. NULL when memory runs out. */
hp_arrival *hp_arrivals_take(hp_arrivals *arrivals, uint32_t cost);
void hp_arrivals_give(hp_arrivals *arrivals, hp_arrival *arrival);
void hp_arrivals_free(hp_arrivals *arrivals); /* those that were given back; no other must be in use */

#endif
