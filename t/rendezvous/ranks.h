/* SPDX-License-Identifier: MIT */
/*
 * ranks: a rendezvous server and many clients in one process and on one loop, over loopback. Shared by the tests of
 * rendezvous/; each test binary has its own server on a port of its own.
 */
#ifndef T_RANKS_H
#define T_RANKS_H

#include "base/clock.h"
#include "rendezvous/client.h"
#include "rendezvous/server.h"

enum { RANKS_MAX = 512, LINES_MAX = 64, SOON_MS = 60000 /* nothing that is awaited takes so long */ };

typedef struct meet {
    hp_loop *loop;
    hp_server *server;
    hp_addr addr;
    hp_secret secret;           /* the server's */
    char lines[LINES_MAX][320]; /* what the server said */
    int lines_n;
} meet;

void meet_open(meet *m); /* bails out where it cannot */
void meet_open_as(meet *m, const hp_secret *secret,
                  const uint8_t job_id[HP_JOB_ID_BYTES]); /* with this job's own key only */
void meet_close(meet *m);
void meet_serve(meet *m);                       /* (re)starts the server at m->addr */
int meet_said(const meet *m, const char *part); /* how many lines contain this */

/* What the servers know, and what the keys of rank_options are made from. */
hp_secret rank_secret(void);

/* Options of rank `rank` of `size` in the job of this name: hosts of `per_host` ranks, patience in milliseconds, op_timeout
 * of SOON_MS. */
hp_client_options rank_options(const meet *m, const char *job_id, int rank, int size, int per_host, int patience_ms);
hp_client *rank_join(meet *m, const hp_client_options *options);

/* Runs the loop until all (or any) of the clients are in `state`, or the milliseconds are over; 1: they are. */
int ranks_reach(meet *m, hp_client **clients, int n, hp_client_state state, int ms);
void meet_run(meet *m, int ms); /* and what is ready then, if the time passed while nothing ran */
/* JOIN to GO; 1: all got there. */
int ranks_go(meet *m, hp_client **clients, int n, int ms);
void ranks_free(hp_client **clients, int n);
/* LEAVE with this count, then free; runs the loop between, so that the server hears it at once. */
void ranks_leave(meet *m, hp_client **clients, int n, uint64_t completed);

#endif
