/* SPDX-License-Identifier: MIT */
/*
 * pending: the places of those who have connected and not yet proven anything: fixed in number and size, whatever comes.
 * Pure: who gets which place, and who has to go for it.
 */
#ifndef HP_PENDING_H
#define HP_PENDING_H

#include "net/addr.h"
#include "net/handshake.h"

enum { HP_PENDING_MAX = 256, HP_PER_ADDRESS = 32, HP_PLACES_LEAST = 8 };

/* A connection in the door, whatever it has proven. */
typedef struct hp_incoming {
    int fd;    /* -1: a free place */
    int guest; /* its tag was right: it left the pool, and is a caller */
    uint64_t deadline;
    hp_addr peer;
} hp_incoming;

typedef struct hp_pending {
    hp_incoming incoming;
    size_t have; /* bytes of its greeting */
    uint8_t m1[HP_M1];
} hp_pending;

/* "what (47 45 54 20)": at most 16 of the bytes that it sent, from `at` on. Returns text. */
enum { HP_QUOTED = 160 };
char *hp_pending_quote(const hp_pending *pending, const char *what, size_t at, char text[HP_QUOTED]);

typedef struct hp_pending_pool {
    int most;        /* places that may be taken at once */
    int per_address; /* most places for one address, loopback excepted; of IPv6, for one network of 64 bits */
    hp_pending places[HP_PENDING_MAX];
} hp_pending_pool;

/* per address: HP_PER_ADDRESS or `world`, whichever is larger. Sharing anew takes no place from anybody. */
void hp_pending_pool_init(hp_pending_pool *pool, int world);
void hp_pending_pool_share(hp_pending_pool *pool, int world);

/* So many places may be taken from now on: at least HP_PLACES_LEAST. Who is one too many keeps his until he is closed. */
void hp_pending_pool_limit(hp_pending_pool *pool, int most);
int hp_pending_pool_taken(const hp_pending_pool *pool);

/*
 * A place for a connection from `peer`: a free one; or, where it is taken (fd >= 0), the oldest one, of this address
 * when that has its share already, which the caller closes first.
 */
hp_pending *hp_pending_pool_place(hp_pending_pool *pool, const hp_addr *peer);
hp_pending *hp_pending_pool_oldest(hp_pending_pool *pool); /* by deadline; NULL: nobody is there */

#endif
