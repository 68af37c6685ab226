/* SPDX-License-Identifier: MIT */
/*
 * server: what all ranks of one run have in common: the job's name and secret, the rendezvous server and where it
 * listens; and what each host's agent is told.
 */
#ifndef HP_LAUNCH_JOB_SERVER_H
#define HP_LAUNCH_JOB_SERVER_H

#include "launch/mapping.h"
#include "net/addr.h"
#include "net/secret.h"
#include "rendezvous/server.h"

/* Who hears of the server. */
typedef struct hp_job_server_owner {
    void *arg;
    void (*say)(void *arg, const char *line);  /* its own lines */
    void (*warn)(void *arg, const char *line); /* who holds up the job */
    void (*failed)(void *arg, const hoop_error *cause);
    const char *(*host_of)(void *arg, int rank); /* where a rank was started */
} hp_job_server_owner;

typedef struct hp_job_server {
    const hp_options *options;
    const hp_mapping *mapping;
    char id[17];
    uint16_t port;     /* chosen at random, for MASTER_PORT */
    hp_secret *secret; /* the job's own key */
    hp_server *server;
    hp_addr address;    /* the server's */
    hp_winsize winsize; /* for the ranks' terminals */
} hp_job_server;

hoop_result hp_job_server_open(hp_job_server *s, const hp_options *options, const hp_mapping *mapping,
                               hoop_error *error);

/*
 * Opens the server once `host` has answered, which sees this machine at the address seen_from ("": unknown). Does
 * nothing when it is open, or when the answer came from here and other hosts must reach it.
 */
hoop_result hp_job_server_start(hp_job_server *s, hp_loop *loop, int host, const char *seen_from,
                                const hp_job_server_owner *owner, hoop_error *error);

void hp_job_server_put_spec(const hp_job_server *s, int host,
                            hp_buffer *out);        /* the secret's line and the orders, for an agent */
void hp_job_server_forget_secret(hp_job_server *s); /* the secret has gone to everybody */
void hp_job_server_rank_exited(hp_job_server *s, int rank,
                               const char *host); /* with status 0: the server tells who waits for it */
void hp_job_server_close(hp_job_server *s);

#endif
