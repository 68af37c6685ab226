/* SPDX-License-Identifier: MIT */
/*
 * pending: the places of connections that have proven nothing yet. Their number and size are fixed, whatever arrives.
 * Pure: it decides which place a new connection gets, and which connection is closed for it.
 */
#ifndef HP_PENDING_H
#define HP_PENDING_H

#include "net/addr.h"
#include "net/handshake.h"

enum { HP_PENDING_MAX = 256, HP_PER_ADDRESS = 32, HP_PLACES_LEAST = 8 };

/* A connection in an acceptor, pending or candidate. */
typedef struct hp_incoming {
    int fd;           /* -1: a free place */
    int is_candidate; /* 1: its tag was right, so it is a candidate's and no longer in the pool */
    uint64_t deadline;
    hp_addr peer;
} hp_incoming;

typedef struct hp_pending {
    hp_incoming incoming;
    size_t have; /* bytes of its HELLO */
    uint8_t m1[HP_M1];
} hp_pending;

/* "what (47 45 54 20)": `what` and at most 16 of the bytes it sent, from `at` on. Returns text. */
enum { HP_QUOTED = 160 };
char *hp_pending_quote(const hp_pending *pending, const char *what, size_t at, char text[HP_QUOTED]);

typedef struct hp_pending_pool {
    int most;        /* places that may be taken at once */
    int per_address; /* most places for one address, loopback excepted; of IPv6, for one network of 64 bits */
    hp_pending places[HP_PENDING_MAX];
} hp_pending_pool;

/* The share of an address is HP_PER_ADDRESS or `world`, whichever is larger. Changing it closes no connection. */
void hp_pending_pool_init(hp_pending_pool *pool, int world);
void hp_pending_pool_share(hp_pending_pool *pool, int world);

/*
 * From now on `most` places may be taken, at least HP_PLACES_LEAST. Connections above that stay until they are
 * closed.
 */
void hp_pending_pool_limit(hp_pending_pool *pool, int most);
int hp_pending_pool_taken(const hp_pending_pool *pool);

/*
 * A place for a connection from `peer`: a free one; else an occupied one (fd >= 0), which the caller closes first.
 * That is the oldest of the same address if the address has its share already, else the oldest of all.
 */
hp_pending *hp_pending_pool_place(hp_pending_pool *pool, const hp_addr *peer);
hp_pending *hp_pending_pool_oldest(hp_pending_pool *pool); /* by deadline; NULL: there is none */

#endif
