/* SPDX-License-Identifier: MIT */
/* job_table: what the ranks are doing, for the user who asks, or whose job is stopped. */
#ifndef HP_LAUNCH_JOB_TABLE_H
#define HP_LAUNCH_JOB_TABLE_H

#include "launch/job_server.h"
#include "launch/output.h"

enum { HP_JOB_TABLE_ALL = 1 << 20, HP_JOB_TABLE_SHORT = 10 };

/* The table of rendezvous/table.h as messages, at most so many lines. */
void hp_job_table_print(const hp_job_server *server, hp_output *output, int most);

/* Whether operations of any ring have waited for a second without progress. */
int hp_job_table_stalled(const hp_job_server *server);

#endif
