/* SPDX-License-Identifier: MIT */
/*
 * host: one host's part in a job: its agent is called, gets its orders, reports, and ends. Also the structure that
 * job.c and host.c share; nobody else looks into it.
 */
#ifndef HP_LAUNCH_HOST_H
#define HP_LAUNCH_HOST_H

#include "launch/agent_conn.h"
#include "launch/failure.h"
#include "launch/job_server.h"
#include "launch/output.h"
#include "launch/signals.h"
#include "launch/stdin.h"

typedef enum hp_phase {
    HP_CALLING,  /* agents are being started; awaits the greeting of all */
    HP_RUNNING,  /* awaits the end of all ranks */
    HP_STOPPING, /* awaits the end of all agents, by force if need be */
    HP_FINISHED
} hp_phase;

typedef struct hp_run hp_run;

typedef struct hp_host {
    hp_run *run;
    int host;            /* index in the mapping */
    hp_agent_conn *conn; /* NULL: not called yet, or not used */
    int done;            /* it has said that everything there has ended */
    int ordered;
} hp_host;

struct hp_run {
    const hp_options *options;
    const hp_mapping *mapping;
    hp_phase phase;
    hp_loop *loop;
    hp_job_server server;
    hp_output *output;
    hp_stdin *input; /* NULL: standard input was the hostfile */
    hp_failure failure;
    hp_host *host;                   /* by host */
    int hosts;                       /* in host */
    int first;                       /* where rank 0 is */
    int used, called, greeted, over; /* of them */
    int paused;                      /* agents are held because the output has a slow reader */
    hp_signals signals;
    hp_timer *limit, *patience, *deadline, *deliberation;
    int label; /* ranks' lines have labels */
    int status, by_signal;
    int hurry;       /* told to stop twice */
    int last_resort; /* agents have been killed */
    int flushing;    /* a moment for the reader of the output, then it is over */
};

const char *hp_host_name(const hp_host *host);
void hp_host_start_more(hp_run *run);  /* starts agents while not too many are being waited for */
void hp_host_send_spec(hp_host *host); /* secret, orders, go */
void hp_host_stop(hp_host *host, uint64_t grace);
void hp_host_signal(hp_host *host, int number); /* to its ranks */
void hp_host_resize(hp_host *host);             /* the server's has changed */

/* The job's side, in job.c. */
void hp_run_stop(hp_run *run, int status, uint64_t grace); /* the first cause counts, later calls shorten the grace */
void hp_run_finish(hp_run *run);                           /* an agent is over: was it the last? */
void hp_run_greeted(hp_run *run, hp_host *host);
void hp_run_report_failure(hp_run *run);  /* the first, if there is one */
void hp_run_expect_failures(hp_run *run); /* a moment later */
void hp_run_check_output(hp_run *run);    /* after more of it */

#define HP_GRACE (5 * HP_SEC) /* between TERM and KILL */

#endif
