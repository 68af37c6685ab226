/* SPDX-License-Identifier: MIT */
/*
 * options: hoop-bench's command line: nccl-tests' flags, letter for letter, and some more. It never prints or ends the
 * program, because only rank 0 may print a mistake.
 */
#ifndef PERF_OPTIONS_H
#define PERF_OPTIONS_H

#include <stddef.h>

enum { PERF_ALL = -1 };
enum { PERF_RUN, PERF_HELP, PERF_VERSION, PERF_LIST, PERF_WRONG };

typedef struct perf_options {
    size_t min_bytes, max_bytes, step_bytes, step_factor; /* step_factor 0 or 1: steps of step_bytes */
    int iterations, warmup, check;
    int coll, type, op, root; /* PERF_ALL: each of them */
    int average, blocking, gpus;
    int stats;
    const char *json, *csv; /* NULL: none */
    const char *wire;       /* the setting wire_dtype; NULL: as it is */
    int plain;              /* 1: started without any option */
} perf_options;

/* PERF_RUN, _HELP, _VERSION, _LIST, or PERF_WRONG with a sentence in why. */
int perf_options_read(perf_options *options, int argc, char **argv, char *why, size_t size);

const char *perf_options_help(void);
void perf_options_list(void); /* prints the options, for the completion of the shell */

#endif
