/* SPDX-License-Identifier: MIT */
/*
 * job_server: the job's name and secret, and the rendezvous server that hooprun runs for it, at an address that all hosts
 * can reach.
 */
#ifndef HP_LAUNCH_JOB_SERVER_H
#define HP_LAUNCH_JOB_SERVER_H

#include "launch/mapping.h"
#include "launch/output.h"
#include "net/secret.h"
#include "rendezvous/server.h"

typedef struct hp_job_server {
    const hp_options *options;
    const hp_mapping *mapping;
    char id[9];                /* the job's name: in HOOP_JOB, in tables and lines, and in the names of files */
    uint16_t port;             /* random, for MASTER_PORT */
    hp_secret *secret;         /* the job's own key; NULL: forgotten */
    hp_server *server;         /* NULL: not started */
    hp_addr address;           /* the server's */
    hp_server_options serving; /* as the server was started */
    int summed_up;             /* a line of summary has been printed; set by the owner */
    int summarized;
} hp_job_server;

hoop_result hp_job_server_open(hp_job_server *s, const hp_options *options, const hp_mapping *mapping,
                               hoop_error *error);

/*
 * Starts the server once `host` has answered, which sees this machine at the address seen_from ("": unknown). Does
 * nothing if it runs, or if the answer came from here and other hosts must reach the server. owner: the functions that it
 * calls, `warn` among them, and their argument; all else is set here.
 */
hoop_result hp_job_server_start(hp_job_server *s, hp_loop *loop, int host, const char *seen_from,
                                const hp_server_options *owner, hoop_error *error);

/* What the ranks are doing: the table of rendezvous/table.h as messages, at most so many lines. */
enum { HP_TABLE_ALL = 1 << 20, HP_TABLE_SHORT = 10 };
void hp_job_server_table(const hp_job_server *s, hp_output *output, int most);

void hp_job_server_forget_secret(hp_job_server *s); /* every agent has it */

/* A rank has exited with status 0: if others wait for it in hoop_comm_create, the server tells them. */
void hp_job_server_rank_exited(hp_job_server *s, int rank, const char *host);

/* How many processes wait in vain for a place in a ring, since none is left. */
int hp_job_server_stranded(const hp_job_server *s);

/*
 * All ranks have ended: what the rings have done that were not left, once. ended_well: if --summary has nothing to
 * show, a line says so.
 */
void hp_job_server_summarize(hp_job_server *s, int ended_well);
void hp_job_server_close(hp_job_server *s);

#endif
