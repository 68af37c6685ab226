/* SPDX-License-Identifier: MIT */
/*
 * candidate: a connection whose HELLO had a right tag, in the middle of its handshake. It is not proven yet: an
 * attacker may have recorded that HELLO and sent it again. A HELLO is answered once, so a copy of it holds no place. Who
 * goes if there are too many is decided by the time that the caller passes in.
 */
#ifndef HP_CANDIDATE_H
#define HP_CANDIDATE_H

#include "net/pending.h"

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
    unsigned noted; /* HELLOs so far */
    uint64_t
        seen[HP_NONCES]; /* the first 8 bytes of the latest nonces; memory that none has reached yet costs nothing */
} hp_candidates;

/* Whether the tag of a HELLO is right: 1 or 0; -1 when libcrypto could not compute it. */
int hp_candidates_know(const uint8_t m1[HP_M1], const hp_keys *keys);

/* Notes the nonce of a HELLO with a right tag. Returns 0 if it was noted before: this HELLO is a copy. */
int hp_candidates_note(hp_candidates *candidates, const uint8_t m1[HP_M1]);

/* Takes over the connection `incoming`, whose HELLO has just been found right. NULL: out of memory. */
hp_candidate *hp_candidate_new(const hp_incoming *incoming, const hp_keys *keys, int expendable);

void hp_candidates_add(hp_candidates *candidates, hp_candidate *candidate);
void hp_candidates_remove(hp_candidates *candidates,
                          hp_candidate *candidate); /* the caller of this function owns it from here on */
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
