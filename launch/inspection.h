/* SPDX-License-Identifier: MIT */
/*
 * inspection: what the user gets who asks a job that goes on (Ctrl-\): the table of its ranks at once, and what their flight
 * recorders tell when every host has sent them twice, a moment apart. Five seconds for each time are enough; a host that
 * needs more is named, and goes without.
 */
#ifndef HP_LAUNCH_INSPECTION_H
#define HP_LAUNCH_INSPECTION_H

#include "launch/host.h"

enum { HP_INSPECTION_ALL = 1 << 20, HP_INSPECTION_SHORT = 10 };

/* What the ranks are doing: the table of rendezvous/table.h as messages, at most so many lines. */
void hp_inspection_table(const hp_job_server *server, hp_output *output, int most);

/* Whether operations of any ring have waited for a second without progress. */
int hp_inspection_is_stalled(const hp_job_server *server);

typedef struct hp_inspection {
    hp_hosts *hosts;
    const hp_job_server *server;
    hp_output *output;
    hp_timer *limit;
    enum { HP_INSPECTION_NONE, HP_INSPECTION_FIRST, HP_INSPECTION_PAUSE, HP_INSPECTION_SECOND } step;
    int named; /* a host that has not answered was named */
} hp_inspection;

void hp_inspection_open(hp_inspection *inspection, hp_loop *loop, hp_hosts *hosts, const hp_job_server *server,
                        hp_output *output);
void hp_inspection_close(hp_inspection *inspection);    /* zeroed memory is fine */
void hp_inspection_begin(hp_inspection *inspection);    /* nothing but the table before the last one has ended */
void hp_inspection_answered(hp_inspection *inspection); /* the hosts have answered */
void hp_inspection_cancel(hp_inspection *inspection);   /* the job ends, and its recorders are reported then */

#endif
