/* SPDX-License-Identifier: MIT */
/*
 * served: for tests whose own process serves: one secret, the server's address, and ranks that are forks and get both
 * from it. The ranks die with the test, and each has an alarm.
 */
#ifndef T_SERVED_H
#define T_SERVED_H

#include "hoop.h"

#include <sys/types.h>

enum { SERVED_LIMIT = 120, SERVED_RANKS = 4 };

extern char served_secret[HOOP_SECRET_TEXT], served_address[HOOP_SERVER_TEXT];

const char *served_why(void); /* what this thread's last error says */

/* A server with the secret, and its address in served_address; NULL: it could not be started. */
hoop_server *served_start(const char *rendezvous);

/* Makes the communicator of this rank in a job of that server, within a minute or HOOP_BOOTSTRAP_TIMEOUT_MS. */
hoop_result served_join(hoop_comm **comm, const char *job, int rank, int size);

/* 0 when the sum of what each rank gives is right; destroys the communicator. */
int served_adds_up(hoop_comm *comm);

/*
 * Processes: a fork that waits for served_go, from which it learns served_address, runs fn and ends with its return value;
 * how many did not end with status 0; n of them from the first to the last step. All are forked before one runs, and
 * best before the server starts: with AddressSanitizer the child of a fork inherits the locks of malloc, and one that
 * another thread holds just then stays held.
 */
typedef int served_fn(int rank);
pid_t served_spawn(served_fn *fn, int rank);
void served_go(void);
int served_reap(const pid_t *pids, int n);
int served_run(served_fn *fn, int first, int n);

#endif
