/* SPDX-License-Identifier: MIT */
/*
 * recorders: the flight recorders of a job's ranks (hoop_flight(5)). Each agent reads those of its host before the ranks
 * are stopped, or when they have ended, and whenever the user asks; the launcher explains those of a job that failed, or
 * that the user asks about (Ctrl-\), and writes them to a file. Asked, every host sends them twice, a moment apart. Five
 * seconds for each time are enough; a host that needs more is named, and goes without.
 */
#ifndef HP_LAUNCH_RECORDERS_H
#define HP_LAUNCH_RECORDERS_H

#include "launch/host.h"

/* The agent: appends this host's recorders of the job to `out`, a HP_MSG_FLIGHT each. */
void hp_recorders_put(hp_buffer *out, const char *job);

/* The launcher: whether the folder of --flight-dir (NULL: none) can take the file; else the error names it. */
hoop_result hp_recorders_check(const char *dir, hoop_error *error);

/* The launcher's; host.c has those that agents have sent. */
typedef struct hp_recorders {
    hp_hosts *hosts;
    const hp_job_server *server;
    hp_output *output;
    hp_timer *limit;
    enum { HP_RECORDERS_IDLE, HP_RECORDERS_FIRST, HP_RECORDERS_PAUSE, HP_RECORDERS_SECOND } step;
    int named;                    /* a host that has not answered was named */
    hp_flight_collection earlier; /* what the hosts sent first, with which the second reading is compared */
    int written;                  /* 1: the file is this run's */
} hp_recorders;

void hp_recorders_open(hp_recorders *recorders, hp_hosts *hosts, const hp_job_server *server, hp_output *output);
void hp_recorders_close(hp_recorders *recorders);  /* zeroed memory is fine */
void hp_recorders_ask(hp_recorders *recorders);    /* nothing before the last question has ended */
void hp_recorders_look(hp_recorders *recorders);   /* after each turn of the loop: whether the hosts have answered */
void hp_recorders_cancel(hp_recorders *recorders); /* the job ends, and its recorders are reported then */

/*
 * Writes DIR/hoop-JOB.flight.json, and the sentence to the user, and frees the recorders. Nothing where there are none. A
 * file that this run has written before is written anew; another's is never changed.
 */
void hp_recorders_report(hp_recorders *recorders);

#endif
