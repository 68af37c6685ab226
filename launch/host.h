/* SPDX-License-Identifier: MIT */
/*
 * party: one host's part in a job: its agent is called, gets its orders, reports, and ends. Also the structure that
 * job.c and party.c share; nobody else looks into it.
 */
#ifndef HP_PARTY_H
#define HP_PARTY_H

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

typedef struct hp_job hp_job;

typedef struct hp_party {
    hp_job *job;
    int host;            /* index in the layout */
    hp_contact *contact; /* NULL: not called yet, or not used */
    int done;            /* it has said that everything there has ended */
    int ordered;
} hp_party;

struct hp_job {
    const hp_options *options;
    const hp_layout *layout;
    hp_phase phase;
    hp_loop *loop;
    hp_task task;
    hp_output *output;
    hp_input *input; /* NULL: standard input was the hostfile */
    hp_jury jury;
    hp_party *party;                 /* by host */
    int hosts;                       /* in party */
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

const char *hp_party_name(const hp_party *party);
void hp_party_call_more(hp_job *job); /* starts agents while not too many are being waited for */
void hp_party_order(hp_party *party); /* secret, orders, go */
void hp_party_stop(hp_party *party, uint64_t grace);
void hp_party_signal(hp_party *party, int number); /* to its ranks */
void hp_party_window(hp_party *party);             /* the task's has changed */

/* The job's side, in job.c. */
void hp_job_stop(hp_job *job, int status, uint64_t grace); /* the first cause counts, later calls shorten the grace */
void hp_job_finish(hp_job *job);                           /* an agent is over: was it the last? */
void hp_job_greeted(hp_job *job, hp_party *party);
void hp_job_pronounce(hp_job *job);    /* the verdict, if there is one */
void hp_job_deliberate(hp_job *job);   /* a moment later */
void hp_job_check_output(hp_job *job); /* after more of it */

#define HP_GRACE (5 * HP_SEC) /* between TERM and KILL */

#endif
