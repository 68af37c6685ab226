/* SPDX-License-Identifier: MIT */
/*
 * measure: one row of the table: one collective, type, operation, root and size; its first call, warm-up, timed runs and
 * checked runs, out of place and in place. All ranks do the same; rank 0 alone prints.
 */
#ifndef PERF_MEASURE_H
#define PERF_MEASURE_H

#include "perf/data.h"
#include "perf/report.h"

/* A rank's whole run, as run.c prepares it. */
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

typedef struct perf_task {
    const perf_coll *coll;
    const perf_type *type;
    int op, root; /* op: its place in the table of perf_op_at */
    perf_row row; /* its names and its root are set before perf_measure_row */
} perf_task;

void perf_measure_row(perf_run *run, perf_task *task, size_t bytes);

/* An error of the library ends the program with its sentence. */
void perf_need(const perf_run *run, hoop_result result);

/* For a mistake that all ranks notice alike: rank 0 prints the sentence, and all end with the status. */
void perf_refuse(const perf_run *run, int status, const char *sentence) __attribute__((noreturn));

/* For trouble of one rank alone, for which the others must not wait: "rank 3 <sentence>". */
void perf_abandon(const perf_run *run, const char *sentence) __attribute__((noreturn));

/* 1: descriptor fd is a pipe to hooprun, which copies it to a terminal of its own. */
int perf_is_shown_by_hooprun(int fd);

#endif
