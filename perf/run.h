/* SPDX-License-Identifier: MIT */
/*
 * run: a whole run of hoop-bench: memory and files before anything is timed, the ranks' introductions, all rows that the
 * options name, and what rank 0 prints and writes after them.
 */
#ifndef PERF_RUN_H
#define PERF_RUN_H

#include "perf/measure.h"

/*
 * `run` has options and a communicator, and is zero otherwise. 0; 1: a result was wrong, or a file could not be written.
 * Other errors end the program.
 */
int perf_run_all(perf_run *run);

#endif
