/* SPDX-License-Identifier: MIT */
/*
 * candidate: a connection whose greeting had a right tag, in the middle of its handshake. It is not yet proven: whoever has
 * seen such a greeting on the wire can send it again. A greeting is answered once, so a copy of it holds no place.
 */
#ifndef HP_CALLER_H
#define HP_CALLER_H

#include "net/pending.h"

enum { HP_NONCES = 1024 };

typedef struct hp_caller {
    hp_visitor visitor; /* first: whoever waits in a door has one */
    uint32_t events;    /* as told to epoll */
    int vain;           /* nobody here will let it in: the first to go */
    int expected;       /* the owner has said HP_OK and keeps a place */
    uint64_t greeted;   /* by hp_now(): its other side's clock goes on when the door's stands */
    hp_conn conn;
    hp_keys *keys; /* held for conn */
    struct hp_caller *next, **link;
} hp_caller;

typedef struct hp_callers {
    int count, vain; /* all, and those in vain */
    hp_caller *first;
    unsigned noted;           /* greetings so far */
    uint64_t seen[HP_NONCES]; /* the first bytes of their nonces, the latest ones */
} hp_callers;

/* Whether a greeting's tag is right: 1 or 0; -1 when this side could not compute it. */
int hp_callers_know(const uint8_t m1[HP_M1], const hp_keys *keys);

/* Notes the nonce of a greeting with a right tag. 0: it was here before, so this is a copy. */
int hp_callers_note(hp_callers *callers, const uint8_t m1[HP_M1]);

void hp_callers_add(hp_callers *callers, hp_caller *caller);
void hp_callers_remove(hp_callers *callers, hp_caller *caller); /* it is the caller of this function's from here on */
hp_caller *hp_callers_vain(const hp_callers *callers);          /* the oldest of those in vain; NULL: none */

/*
 * For an owner that has taken a caller in HP_CONN_JUDGE out of the door: says the last message and frees the caller.
 * The descriptor, where it was HP_OK and the message is out; else -1, and it is closed.
 */
int hp_caller_answer(hp_caller *caller, hp_status status, uint32_t assigned);
/* 1: nobody drove the owner for so long that the other side is about to dial again, or has. */
int hp_caller_is_stale(const hp_caller *caller);
void hp_caller_free(hp_caller *caller); /* closes its descriptor, if it has one, in silence */

#endif
