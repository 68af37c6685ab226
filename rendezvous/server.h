/* SPDX-License-Identifier: MIT */
/*
 * server: the rendezvous server: sockets around job.h. bin/hoop-rendezvous, hooprun and tests have one each, with a
 * loop of its own. It serves any number of jobs, each with a key of its own that is derived from the secret; jobs
 * never mix.
 */
#ifndef HP_SERVER_H
#define HP_SERVER_H

#include "net/handshake.h"
#include "net/loop.h"
#include "net/secret.h"
#include "net/sock.h"
#include "rendezvous/table.h"

typedef struct hp_server hp_server;

typedef struct hp_server_options {
    int listener;   /* a socket that listens already, which the server takes over; 0: it makes its own, by `listen`: */
    hp_addr listen; /* port 0: the first free one of `ports` */
    hp_ports ports; /* first 0: any port */
    const hp_secret
        *secret;    /* copied; if it is a job's own key, that job is served and no other; not read in mode none */
    int mode;       /* HP_MODE_AUTH or HP_MODE_NONE (loopback only) */
    int asked;      /* 1: hoop-top of this user may ask it (inquiry.h) */
    int comes_back; /* 1: it is started again when it has died, at this address; rings are made known again (recall.h) */
    int one_attempt; /* 1: ranks of another attempt than `attempt` are refused; 0: any are served */
    uint32_t attempt;
    int summary; /* summaries of rings are said, too */
    hp_starter starter;
    /* For an owner with one job: its name, as lines and tables have it; NULL: by the hash. The owner keeps it. */
    const char *job;
    /* Likewise: somebody on this host has made a new connection, and proven to know the job's key (launch/lease.h). */
    void (*knocked)(void *arg, int host); /* arg: the starter's */
} hp_server_options;

hp_server *hp_server_new(hp_loop *loop, const hp_server_options *options, hoop_error *error);
const hp_addr *hp_server_addr(const hp_server *server);
int hp_server_jobs(const hp_server *server); /* how many jobs it remembers; for tests */

/* What the ranks of all jobs are doing (table.h). */
void hp_server_print(const hp_server *server, const hp_table_options *options);
/* The summaries of the rings that are not over. */
void hp_server_summarize(hp_server *server);
/* ns for which the longest wait of any job has seen no progress; 0: no rank waits. */
uint64_t hp_server_stalled(const hp_server *server);

/* The longest peer_timeout_ms, in ms, of the rings that are up; 0: there is none. */
uint32_t hp_server_peer_timeout(const hp_server *server);

/* How many processes wait for a place in a job of which no ring is left, so that none can take them in. */
int hp_server_stranded(const hp_server *server);

/*
 * For an owner that has started the ranks: the process of this rank of this job (of `size` ranks in all) has ended
 * with status 0. Ranks that wait for it to join fail at once, and so do those that join later; remembered as long as
 * the server lives.
 */
void hp_server_rank_ended(hp_server *server, const uint8_t job_id[HP_JOB_ID_BYTES], int rank, int size,
                          const char *host);
/*
 * Accepts no more, and closes all connections when what was sent to them is written. Ranks that wait for others get an
 * error that says so. hp_server_is_closed: every rank's host has all of it. Only hp_server_free may follow.
 */
void hp_server_close(hp_server *server);
int hp_server_is_closed(const hp_server *server);
void hp_server_free(hp_server *server);

#endif
