/* SPDX-License-Identifier: MIT */
/*
 * test_acceptor: an acceptor with an owner that counts what it is asked, and incoming connections of every kind. For
 * t/net/acceptor.c and acceptor_attack.c.
 */
#ifndef T_NET_TEST_ACCEPTOR_H
#define T_NET_TEST_ACCEPTOR_H

#include "net/acceptor.h"
#include "net/dial.h"

enum free_in { NOWHERE, IN_KEYS, IN_POLICY, IN_JUDGE, IN_ENTER };

struct house {
    hp_loop *loop;
    hp_acceptor *acceptor;
    hp_keys keys;
    hp_handshake_policy policy;
    hp_status verdict;
    enum free_in free_in; /* the owner's function that frees the acceptor */
    int asked_keys, asked_policy, judged, entered, starved;
    int number;     /* what was lacking then */
    int fd;         /* who entered last; closed by the next one */
    int kill;       /* judge resets this connection: it dies before WELCOME */
    hp_hello hello; /* and its greeting */
    uint64_t features;
    hp_addr peer;
};

/* A dial in the house's own loop. */
struct candidate {
    int done;
    hp_dial_result result;
};

/* The last log line and their number; hoop_log_to(house_log, NULL). */
extern int house_log_lines;
extern char house_log_text[512];
void house_log(void *arg, int level, const char *line);

void make_keys(hp_keys *keys, uint8_t first, uint8_t job_first);

/* Rank 4 of 8, epoch 0, at `where`, waiting for data connections. 0 when it cannot be. */
int build(struct house *house, const char *where);
void raze(struct house *house);
void run_for(struct house *house, uint64_t ns);
int settle(struct house *house, const int *value, int wanted); /* runs until *value is wanted */

/* Rank 3's greeting, as a struct and as the bytes of M1. */
hp_hello greeting(const struct house *house);
void make_m1(const struct house *house, uint8_t m1[HP_M1]);
void make_another_m1(const struct house *house, uint8_t m1[HP_M1], uint8_t first); /* of its nonce; make_m1's is 1 */

/* A incoming connection of the plainest kind: a blocking socket with a limit, and what it says first. */
int visit(const struct house *house, const void *bytes, size_t n);

/* Runs the acceptor until it has closed fd; returns the number of bytes that it answered, -1 when it does not close. */
int answer(struct house *house, int fd, uint64_t limit);

hp_dial *call(struct house *house, struct candidate *candidate, const hp_keys *keys, const hp_hello *hello);
int gets_in(struct house *house, uint64_t *took); /* whether a genuine rank does, now, and how long that takes */

#endif
