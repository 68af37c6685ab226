/* SPDX-License-Identifier: MIT */
/*
 * report: what a run has found, as rank 0 prints and writes it: nccl-tests' head, columns and foot, letter for letter, so
 * that a program that reads theirs reads ours; the curve of bus bandwidth on a terminal; comma-separated values; and the
 * file that nccl-tests' -J writes (its version 3), with hoop's own figures as further keys. Times are in seconds,
 * bandwidths in GB/s. Nothing here measures.
 */
#ifndef PERF_REPORT_H
#define PERF_REPORT_H

#include "perf/options.h"

#include <stdint.h>
#include <stdio.h>

/*
 * What a handful of timings says. The confidence interval is that of the median by order statistics: it assumes nothing
 * about how the timings are distributed.
 */
typedef struct perf_stats {
    double median, p99, min, max; /* p99: the least sample that 99 % of them do not exceed */
    double low, high; /* the median lies between, with 95 % confidence or more; low > high: too few samples (< 6) */
} perf_stats;

/* Sorts the samples. count >= 1. */
perf_stats perf_stats_of(double *samples, size_t count);

int perf_stats_has_interval(const perf_stats *stats);

/*
 * The largest k, counted from 1, for which the interval from the k-th smallest to the k-th largest of `count` samples
 * covers the median with 95 % confidence; 0 where there is none.
 */
size_t perf_stats_rank(size_t count);

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
    perf_member *members; /* of all ranks, in their order */
    perf_rows rows;
    char started[32]; /* wall clock */
} perf_report;

uint64_t perf_report_wrong(const perf_report *report);
void perf_report_clock(char *text, size_t size);         /* "2026-11-20 13:25:00" */
int perf_rows_add(perf_rows *rows, const perf_row *row); /* 0, or -1 out of memory */

/* To standard output. */
void perf_table_head(const perf_report *report);
void perf_table_columns(const perf_report *report, const char *coll);
void perf_table_begin(const perf_row *row); /* before a size is measured */
void perf_table_side(const perf_report *report, const perf_row *row, int place);
void perf_table_end(void);
void perf_table_foot(const perf_report *report);
void perf_curve_draw(const perf_report *report); /* bus bandwidth over size, of the first series, in characters */

int perf_csv_write(const char *path, const perf_report *report); /* 0, or -1 after a sentence on standard error */

/*
 * An existing file is left alone, and the next free number of its name is taken. NULL: errno says why. Of the environment
 * the file has HOOP_ variables only: others may be nobody's business.
 */
FILE *perf_json_open(const char *path);
int perf_json_close(FILE *file, const perf_report *report); /* writes it. 0, or -1: not all could be written */

#endif
