/* SPDX-License-Identifier: MIT */
/*
 * party: N ranks as processes on loopback, with a rendezvous server of their own. Each rank is a fork that runs one
 * function and ends with its return value; what it writes to `note` comes back to the test. Nothing outlives the party:
 * the ranks die with the test, and each has an alarm.
 */
#ifndef T_PARTY_H
#define T_PARTY_H

#include "hoop.h"

#include <netinet/in.h>
#include <stddef.h>
#include <sys/types.h>

enum { PARTY_NOTE = 512 };

typedef struct party_guest {
    pid_t pid;
    int status; /* of waitpid, valid once gone */
    int gone;
    double seconds;        /* from party_start to its end */
    char note[PARTY_NOTE]; /* what the rank left with party_note */
} party_guest;

typedef struct party {
    int size;
    pid_t server;
    char address[64]; /* host:port of the server */
    char secret_file[256];
    char log[256]; /* a file: what the server says of jobs, a line each */
    party_guest *guest;
} party;

typedef int party_fn(int rank, int size, void *arg);

/* Starts a server (a process) and makes a secret file in the test's scratch folder. Call once a test program. */
void party_open(party *p);
/* The same; and when that server has died, another one at its address, of which its ranks know (--comes-back). */
void party_open_returning(party *p);
void party_serve_again(party *p);
void party_close(party *p); /* kills what is left */

/*
 * Forks `size` ranks with HOOP_RANK, HOOP_SIZE, HOOP_RENDEZVOUS, HOOP_SECRET_FILE, and a fresh HOOP_JOB. A rank that is not
 * done after `limit` seconds ends, as by tap_limit.
 */
void party_start(party *p, int size, party_fn *fn, void *arg, unsigned limit);
void party_await(party *p); /* until all have a communicator by party_create or party_join, as tap_waits */
void party_wait(party *p);  /* until all are gone */

int party_failed(const party *p); /* how many of those have not ended with 0; the note of each is shown */

/* party_start, party_wait and party_failed. */
int party_run(party *p, int size, party_fn *fn, void *arg, unsigned limit);

/* A check that all of them end with 0; if not, the note of each is shown. */
void party_expect(party *p, int size, party_fn *fn, void *arg, unsigned limit, const char *text);

/* In a rank: hoop_comm_create, of which party_await knows. */
hoop_result party_create(hoop_comm **comm);

/*
 * In a rank: the communicator of all, on which so many small allreduces have been done; if there are any, by all ranks.
 * Ends the rank if that fails.
 */
hoop_comm *party_join(int operations);

/*
 * In a rank: has got as far as the test wants. In a rank or the test: until so many marks were set; 1, or 0 once the
 * patience of a test is over. So the order of events is the test's, and no rank sleeps for as long as another one may need.
 */
void party_mark(void);
int party_await_marks(int n);
int party_has_marks(int n); /* whether they are set now */

/* Whether all ranks have this value. */
int party_agrees(hoop_comm *comm, uint64_t value);

/* In a rank, before it joins: as if hosts had so many ranks each, the last one perhaps fewer, and over two levels. */
void party_set_host(int rank, int ranks);

/* Another world of this process: a job of its own. */
hoop_result party_second_world(hoop_comm **out);

/* In a rank: a line for the test. */
void party_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* How many lines of the server's log have this. */
int party_says(const party *p, const char *part);

/* Seconds on the monotonic clock, and doing nothing for so many; none at all where they are not above 0. */
double party_clock(void);
void party_nap(double seconds);

/* The first of n ports in a row that are this test's alone, and on which nothing listens. */
int party_ports(int n);
int party_port_is_free(int port);

/* Where this process listens. */
struct sockaddr_in party_own_port(void);

/* How often a fault is tried: `full` times with HOOP_TEST_FULL, else a twentieth of that and at least three times. */
int party_rounds(int full);

#endif
