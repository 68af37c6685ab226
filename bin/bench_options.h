/* SPDX-License-Identifier: MIT */
/*
 * bench_options: hoop-bench's command line, nccl-tests' flags letter for letter. Reads, checks, explains; never ends
 * the program, because only one of many ranks may speak.
 */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stddef.h>

enum { BENCH_ALL = -1 };
enum { BENCH_RUN, BENCH_HELP, BENCH_VERSION, BENCH_WRONG };

typedef struct bench_options {
    size_t min_bytes, max_bytes, step_bytes, step_factor; /* step_factor 0 or 1: steps of step_bytes */
    int iterations, warmup, check;
    int coll, type, op, root; /* BENCH_ALL: each of them */
    int average, blocking, gpus;
    int stats;
    double line;                             /* bits a second; 0: what the interfaces' drivers say */
    const char *json, *csv, *plot, *compare; /* NULL: none */
    int plain;                               /* 1: started without any option */
} bench_options;

/* BENCH_RUN, _HELP, _VERSION, or BENCH_WRONG with a sentence in why. */
int bench_options_read(bench_options *options, int argc, char **argv, char *why, size_t size);

const char *bench_options_help(void);

#endif
