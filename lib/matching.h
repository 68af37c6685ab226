/* SPDX-License-Identifier: MIT */
/*
 * matching: which receive a message from one peer is for. Receives that were posted and messages that came before their
 * receive wait in queues, one for each key (tag); both sides are matched in their order. The peers of a rank may share
 * receives from any of them; those have their place among the others by the order in which all were posted. Pure.
 */
#ifndef HP_MATCHING_H
#define HP_MATCHING_H

#include <stdint.h>

enum { HP_MATCHING_BUCKETS = 64 };

/* A posted receive or a message, in the owner's structure. */
typedef struct hp_match {
    uint64_t key, order; /* order: when it began to wait, among all of them that share; 0 without that */
    struct hp_match *next;
} hp_match;

typedef struct hp_match_queue {
    hp_match *first, *last;
} hp_match_queue;

/* Receives from any peer. All zero at the start. */
typedef struct hp_matching_any {
    hp_match_queue posted[HP_MATCHING_BUCKETS];
    uint64_t posted_n, orders; /* orders: the last one */
} hp_matching_any;

/* All zero at the start, but for `any`. */
typedef struct hp_matching {
    hp_matching_any *any; /* which the peers share; NULL: they share nothing */
    hp_match_queue posted[HP_MATCHING_BUCKETS], unexpected[HP_MATCHING_BUCKETS];
    uint64_t posted_n, unexpected_n;
} hp_matching;

/* Posts a receive. Returns the oldest message with its key, which is the caller's again; NULL: the receive waits. */
hp_match *hp_matching_post(hp_matching *matching, hp_match *receive);

/* Posts a receive for which no peer's hp_matching_unread has a message. */
void hp_matching_post_any(hp_matching_any *any, hp_match *receive);

/* The order of the oldest message with this key that waits for its receive; 0: there is none. */
uint64_t hp_matching_unread(const hp_matching *matching, uint64_t key);

/* A message with this key comes. Returns its receive, which is the caller's again; NULL: none is posted. */
hp_match *hp_matching_arrive(hp_matching *matching, uint64_t key);

/* Keeps a message for which none is posted. */
void hp_matching_keep(hp_matching *matching, hp_match *message);

/* Takes any message that waits; NULL: there is none. */
hp_match *hp_matching_drop(hp_matching *matching);

#endif
