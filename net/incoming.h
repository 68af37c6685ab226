/* SPDX-License-Identifier: MIT */
/*
 * incoming: the connections of an acceptor that are not proven yet: pending ones, of which no HELLO with a right tag has
 * come, and candidates, in the middle of their handshake. It decides which one goes where there are too many, by the time
 * that the caller passes in, and knows neither acceptors nor loops.
 */
#ifndef HP_INCOMING_H
#define HP_INCOMING_H

#include "net/addr.h"
#include "net/handshake.h"

enum { HP_PENDING_MAX = 256, HP_PER_ADDRESS = 32, HP_PLACES_LEAST = 8 };

/* A connection in an acceptor, pending or candidate. */
typedef struct hp_incoming {
    int fd;           /* first, as in every source of the acceptor's events; -1: a free place */
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

/* Their places. Their number and size are fixed, whatever arrives. Pure. */
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

/* --- candidates --- */

/*
 * A candidate is not proven yet: an attacker may have recorded its HELLO and sent it again. A HELLO is answered once, so a
 * copy of it holds no place.
 */
enum { HP_NONCES = 16384 };

typedef struct hp_candidate {
    hp_incoming incoming; /* first: every connection in an acceptor's epoll set has one */
    uint32_t events;      /* those that epoll watches for */
    int expendable;       /* it will be refused whatever it proves: the first to be closed */
    uint64_t greeted;     /* by hp_now(): the dialling rank's clock goes on while the acceptor's is stopped */
    hp_handshake handshake;
    hp_keys *keys; /* held for the handshake */
    struct hp_candidate *next, **link;
} hp_candidate;

typedef struct hp_candidates {
    int count, expendable; /* all, and those that will be refused */
    hp_candidate *first;
    unsigned noted;           /* HELLOs so far */
    uint64_t seen[HP_NONCES]; /* the first 8 bytes of the latest nonces; memory that none has reached costs nothing */
} hp_candidates;

/* Whether the tag of a HELLO is right: 1 or 0; -1 when libcrypto could not compute it. */
int hp_candidates_know(const uint8_t m1[HP_M1], const hp_keys *keys);

/* Notes the nonce of a HELLO with a right tag. Returns 0 if it was noted before: this HELLO is a copy. */
int hp_candidates_note(hp_candidates *candidates, const uint8_t m1[HP_M1]);

/* Takes over the connection `incoming`, whose HELLO has just been found right. NULL: out of memory. */
hp_candidate *hp_candidate_new(const hp_incoming *incoming, const hp_keys *keys, int expendable);

void hp_candidates_add(hp_candidates *candidates, hp_candidate *candidate);
void hp_candidates_remove(hp_candidates *candidates, hp_candidate *candidate); /* it is the caller's from here on */
hp_candidate *hp_candidates_expendable(const hp_candidates *candidates); /* the oldest that will be refused, or NULL */
/*
 * The one that goes for a new one where there are `most` already: the oldest that will be refused, else the oldest that
 * has not confirmed within a second (`now` by hp_now()). Returns 0 if there is no room: the new one must wait, since all
 * that are here may be about to end their handshake. *goes is NULL if none has to go.
 */
int hp_candidates_room(const hp_candidates *candidates, int most, uint64_t now, hp_candidate **goes);

/*
 * For an owner that has taken a candidate in HP_HANDSHAKE_JUDGE: sends the last message and frees the candidate.
 * Returns the descriptor if `status` is HP_OK and the message is sent; else -1, and the connection is closed.
 */
int hp_candidate_answer(hp_candidate *candidate, hp_status status, uint32_t assigned);
int hp_candidate_has_input(const hp_candidate *candidate); /* bytes that have not been read, its CONFIRM perhaps */
/* 1: the owner was not driven for so long that the dialling rank is about to dial again, or has. */
int hp_candidate_is_stale(const hp_candidate *candidate);
void hp_candidate_free(hp_candidate *candidate); /* closes its descriptor, if it has one, without a byte */

#endif
