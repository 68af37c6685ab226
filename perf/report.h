/* SPDX-License-Identifier: MIT */
/*
 * report: what a run has found, as rank 0 prints, writes and draws it. Times are in seconds, bandwidths in GB/s.
 * Nothing here measures.
 */
#ifndef PERF_REPORT_H
#define PERF_REPORT_H

#include "perf/linkspeed.h"
#include "perf/options.h"
#include "perf/stats.h"

#include <limits.h>
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
    char host[64], device[64], interface[PERF_INTERFACE];
    double link_rate; /* bits a second that its interface states; 0: unknown */
} perf_member;

typedef struct perf_report {
    const perf_options *options;
    int argc;
    char **argv;
    int ranks;
    const perf_member *members; /* of all ranks, in their order */
    double link_rate;           /* bits a second of the slowest link, for %line; 0: there is no such column */
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

/* Opens a file to write it anew, and closes it. NULL or -1 after a sentence on standard error. */
FILE *perf_file_open(const char *path);
int perf_file_close(FILE *file, const char *path);

/* The names of several runs' files: a.json, a.0.json, a.1.json ... for number 0, 1, 2 ... */
enum { PERF_NUMBERED = 10000 };
const char *perf_file_numbered(const char *path, int number, char name[PATH_MAX]);
/* Of these names the one whose file was written last; the path itself where there is none. */
const char *perf_file_newest(const char *path, char name[PATH_MAX]);

#endif
