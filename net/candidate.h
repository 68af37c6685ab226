/* SPDX-License-Identifier: MIT */
/*
 * candidate: a connection whose greeting had a right tag, in the middle of its handshake. It is not yet proven: whoever has
 * seen such a greeting on the wire can send it again. A greeting is answered once, so a copy of it holds no place.
 */
#ifndef HP_CANDIDATE_H
#define HP_CANDIDATE_H

#include "net/pending.h"

enum { HP_NONCES = 1024 };

typedef struct hp_candidate {
    hp_incoming incoming; /* first: whoever waits in a door has one */
    uint32_t events;      /* as told to epoll */
    int vain;             /* nobody here will let it in: the first to go */
    uint64_t greeted;     /* by hp_now(): its other side's clock goes on when the door's stands */
    hp_handshake handshake;
    hp_keys *keys; /* held for conn */
    struct hp_candidate *next, **link;
} hp_candidate;

typedef struct hp_candidates {
    int count, vain; /* all, and those in vain */
    hp_candidate *first;
    unsigned noted;           /* greetings so far */
    uint64_t seen[HP_NONCES]; /* the first bytes of their nonces, the latest ones */
} hp_candidates;

/* Whether a greeting's tag is right: 1 or 0; -1 when this side could not compute it. */
int hp_candidates_know(const uint8_t m1[HP_M1], const hp_keys *keys);

/* Notes the nonce of a greeting with a right tag. 0: it was here before, so this is a copy. */
int hp_candidates_note(hp_candidates *candidates, const uint8_t m1[HP_M1]);

void hp_candidates_add(hp_candidates *candidates, hp_candidate *candidate);
void hp_candidates_remove(hp_candidates *candidates,
                          hp_candidate *candidate); /* it is the caller of this function's from here on */
hp_candidate *hp_candidates_vain(const hp_candidates *candidates); /* the oldest of those in vain; NULL: none */

/*
 * For an owner that has taken a caller in HP_HANDSHAKE_JUDGE out of the door: says the last message and frees the caller.
 * The descriptor, where it was HP_OK and the message is out; else -1, and it is closed.
 */
int hp_candidate_answer(hp_candidate *candidate, hp_status status, uint32_t assigned);
/* 1: nobody drove the owner for so long that the other side is about to dial again, or has. */
int hp_candidate_is_stale(const hp_candidate *candidate);
void hp_candidate_free(hp_candidate *candidate); /* closes its descriptor, if it has one, in silence */

#endif
