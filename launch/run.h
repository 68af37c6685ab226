/* SPDX-License-Identifier: MIT */
/* job: one run: agents, rendezvous server, ranks, their output and their end. Owns everything while it runs. */
#ifndef HP_LAUNCH_JOB_H
#define HP_LAUNCH_JOB_H

#include "launch/mapping.h"

/* Runs it to its end; the exit status of the program. *by_signal: the signal that stopped it, else 0. */
int hp_job_run(const hp_options *options, const hp_layout *layout, int *by_signal);

#endif
