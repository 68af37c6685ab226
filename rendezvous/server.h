/* SPDX-License-Identifier: MIT */
/*
 * server: the rendezvous server as a room: libevent around job.c. Used by bin/hoop-rendezvous, by bin/hoop-launch and
 * by tests, each with a loop of its own. Serves any number of jobs, each by a key of its own, made from the secret; they
 * never mix.
 */
#ifndef HP_SERVER_H
#define HP_SERVER_H

#include "net/handshake.h"
#include "net/loop.h"
#include "net/ports.h"
#include "net/secret.h"
#include "net/sock.h"

typedef struct hp_server hp_server;

typedef struct hp_server_options {
    hp_addr listen;          /* port 0: the first free one of `ports` */
    hp_ports ports;          /* first 0: any */
    const hp_secret *secret; /* copied; a job's own key: this job is served, and no other. Mode none: not looked at */
    int mode;                /* HP_MODE_AUTH or HP_MODE_NONE (loopback only) */
    /* One clear line per job and event ("job 4f21: 8 ranks on 2 hosts, ring stands"); NULL: hp_log INFO. */
    void (*say)(void *arg, const char *control);
    /* A line that whoever started the job should see: who holds it up. Starts like say's; NULL: hp_log WARN. */
    void (*warn)(void *arg, const char *control);
    /* A ring of any job has failed, or will not come to be; NULL: nobody asks. */
    void (*failed)(void *arg, const hoop_error *cause);
    /* Where a rank that has not come was started, for an owner with one job; NULL: nobody knows. */
    const char *(*host_of)(void *arg, int rank);
    void *arg; /* of all four */
} hp_server_options;

hp_server *hp_server_new(hp_loop *loop, const hp_server_options *options, hoop_error *error);
const hp_addr *hp_server_addr(const hp_server *server);
int hp_server_jobs(const hp_server *server); /* how many jobs it remembers; for tests */

/*
 * For an owner that has started the ranks: the process of this rank of this job, which has `size` ranks on the whole,
 * has ended with status 0. Who waits for it to join, or comes to, is told so at once; kept as long as the server.
 */
void hp_server_rank_ended(hp_server *server, const uint8_t job_id[HP_JOB_ID], int rank, int size, const char *host);
void hp_server_free(hp_server *server);

#endif
