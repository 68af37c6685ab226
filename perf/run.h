/* SPDX-License-Identifier: MIT */
/*
 * run: a whole run of hoop-bench: memory and files before anything is timed, the ranks' introductions, all rows that the
 * options name, and what rank 0 prints and writes after them. A row is a first call, warm-up, timed runs and checked runs,
 * out of place and in place.
 */
#ifndef PERF_RUN_H
#define PERF_RUN_H

#include "perf/data.h"
#include "perf/report.h"

/* A rank's. */
typedef struct perf_run {
    perf_options options;
    perf_report report;
    hoop_comm *comm;
    int rank, ranks;
    perf_buffer send, recv;
    perf_check check;
    size_t *counts;  /* of each rank, of the row that is measured */
    double *samples; /* seconds of each timed run, then those of the rank that options.average names */
    uint64_t seed;   /* another one for every checked run */
    FILE *json;
    int terminal; /* standard error is one */
    int progress; /* a progress line is on it */
    int row_open; /* a row of the table has begun, and not ended */
} perf_run;

/*
 * `run` has options and a communicator, and is zero otherwise. 0; 1: a result was wrong, or a file could not be written.
 * Other errors end the program.
 */
int perf_run_all(perf_run *run);

/* An error of the library ends the program with its sentence. */
void perf_need(const perf_run *run, hoop_result result);

/* For a mistake that all ranks notice alike: rank 0 prints the sentence, and all end with the status. */
void perf_refuse(const perf_run *run, int status, const char *sentence) __attribute__((noreturn));

#endif
