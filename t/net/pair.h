/* SPDX-License-Identifier: MIT */
/*
 * pair: both ends of one handshake in memory, for t/net/handshake.c: rank 3 dials rank 4 of 8 for data, with the keys and
 * nonces of the known answers. Nothing here checks anything.
 */
#ifndef T_NET_PAIR_H
#define T_NET_PAIR_H

#include "base/clock.h"
#include "net/handshake.h"

enum { MESSAGES = 4 };
static const size_t sizes[MESSAGES] = {HP_M1, HP_M2, HP_M3, HP_M4};
static const uint64_t start = 7 * HP_SEC, limit = 12 * HP_SEC;
extern hp_keys keys;

typedef struct pair {
    hp_hello hello;
    hp_handshake_policy policy;
    uint8_t nonce_i[32], nonce_r[32];
    hp_handshake i, r;
} pair;

void unhex(uint8_t *out, const char *text);
void make_keys(hp_keys *made, uint8_t first, uint8_t job_first);

/* The known answers' two ends; then their first messages, still to be passed. */
void set_up(pair *p);
void begin(pair *p);

/* Moves all of one side's output to the other. */
hp_handshake_state pass(hp_handshake *from, hp_handshake *to);

/* Brings a fresh pair to where message m (0 to 3) lies in its sender's output; returns the sender. */
hp_handshake *reach(pair *p, int m, hp_handshake **receiver);

/* The keys are gone; and: BAD, silent, and without keys. */
int wiped(const hp_handshake *handshake);
int is_bad(const hp_handshake *handshake);

#endif
