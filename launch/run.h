/* SPDX-License-Identifier: MIT */
/* run: one run of a program: its hosts, the rendezvous server, the ranks' output and their end. */
#ifndef HP_LAUNCH_RUN_H
#define HP_LAUNCH_RUN_H

#include "launch/mapping.h"

/* Runs the program to its end; returns hooprun's exit status. *by_signal: the signal that stopped it, else 0. */
int hp_run_to_end(const hp_options *options, const hp_mapping *mapping, int *by_signal);

#endif
