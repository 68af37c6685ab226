/* SPDX-License-Identifier: MIT */
/* job: one run: agents, rendezvous server, ranks, their output and their end. Owns everything while it runs. */
#ifndef HP_LAUNCH_RUN_H
#define HP_LAUNCH_RUN_H

#include "launch/mapping.h"

/* Runs it to its end; the exit status of the program. *by_signal: the signal that stopped it, else 0. */
int hp_run_to_end(const hp_options *options, const hp_mapping *mapping, int *by_signal);

#endif
