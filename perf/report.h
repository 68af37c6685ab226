/* SPDX-License-Identifier: MIT */
/*
 * report: what a run has found, as rank 0 prints and writes it. Times are in seconds, bandwidths in GB/s.
 * Nothing here measures.
 */
#ifndef PERF_REPORT_H
#define PERF_REPORT_H

#include "perf/options.h"
#include "perf/stats.h"

#include <stdint.h>
#include <stdio.h>

typedef struct perf_side {
    double time, algbw, busbw;
    double first; /* the first call at this size, which counts in nothing else */
    uint64_t wrong;
    perf_stats stats;
    int absent; /* the collective has no such form */
} perf_side;

typedef struct perf_row {
    const char *coll, *type, *op; /* static strings; "none" where there is none */
    size_t bytes, count;
    int root;          /* -1: none */
    int checked;       /* 0: wrong was not counted */
    perf_side side[2]; /* out of place, in place */
} perf_row;

typedef struct perf_rows {
    perf_row *row;
    size_t count, room;
} perf_rows;

typedef struct perf_member { /* a rank, as it introduces itself */
    int rank, pid;
    char host[64], device[64];
} perf_member;

typedef struct perf_report {
    const perf_options *options;
    int argc;
    char **argv;
    int ranks;
    const perf_member *members; /* of all ranks, in their order */
    perf_rows rows;
    char started[32]; /* wall clock */
} perf_report;

uint64_t perf_report_wrong(const perf_report *report);
double perf_report_busbw(const perf_report *report);
void perf_report_clock(char *text, size_t size);            /* "2026-11-20 13:25:00" */
int perf_same_series(const perf_row *a, const perf_row *b); /* 1: they differ in their size only */
int perf_rows_add(perf_rows *rows, const perf_row *row);    /* 0, or -1 out of memory */

enum { PERF_SIZE_TEXT = 16 };
const char *perf_size_print(size_t bytes, char text[PERF_SIZE_TEXT]); /* "4 KiB" */

#endif
