/* SPDX-License-Identifier: MIT */
/*
 * report: what a run has found, and the forms in which rank 0 tells it: nccl-tests' table and JSON, a table for
 * spreadsheets, a curve on the terminal, a picture, a comparison with a former run. Nothing here measures.
 */
#ifndef PERF_REPORT_H
#define PERF_REPORT_H

#include "perf/line.h"
#include "perf/options.h"
#include "perf/row.h"

#include <limits.h>
#include <stdio.h>

typedef struct perf_member { /* a rank, as it introduces itself */
    int rank, pid;
    char host[64], device[64], interface[PERF_INTERFACE];
    double line; /* bits a second that its interface states; 0: unknown */
} perf_member;

typedef struct perf_report {
    const perf_options *options;
    int argc;
    char **argv;
    int ranks;
    const perf_member *members; /* of all ranks, in their order */
    double line;                /* bits a second of the slowest link, for %line; 0: there is no such column */
    perf_rows rows;
    char started[32]; /* wall clock */
} perf_report;

/* perf_table.c: to standard output. */
void perf_table_head(const perf_report *report);
void perf_table_columns(const perf_report *report, const char *coll);
void perf_table_begin(const perf_row *row); /* before a size is measured */
void perf_table_side(const perf_report *report, const perf_row *row, int place);
void perf_table_end(void);
void perf_table_foot(const perf_report *report);

uint64_t perf_report_wrong(const perf_report *report);
double perf_report_busbw(const perf_report *report);
void perf_report_clock(char *text, size_t size);            /* "2026-11-20 13:25:00" */
int perf_same_series(const perf_row *a, const perf_row *b); /* all but the size is the same */
int perf_rows_add(perf_rows *rows, const perf_row *row);    /* 0, or -1 out of memory */

enum { PERF_SIZE_TEXT = 16 };
const char *perf_size_print(size_t bytes, char text[PERF_SIZE_TEXT]); /* "4 KiB" */

/* perf_json.c. An existing file is left alone, and the next free number of perf_file_numbered() written. */
FILE *perf_json_open(const char *path); /* NULL: errno says why */
void perf_json_write(FILE *file, const perf_report *report);

/* perf_files.c. 0, or -1 with a sentence on standard error. */
FILE *perf_file_open(const char *path); /* to be written anew; NULL as above */
int perf_file_close(FILE *file, const char *path);
int perf_csv_write(const char *path, const perf_report *report);

/* The names of several runs' files: a.json, a.0.json, a.1.json ... for number 0, 1, 2 ... */
enum { PERF_NUMBERED = 10000 };
const char *perf_file_numbered(const char *path, int number, char name[PATH_MAX]);
/* Of these names the one whose file was written last; the path itself where there is none. */
const char *perf_file_newest(const char *path, char name[PATH_MAX]);

/* perf_curve.c: busbw over size, drawn with characters. */
void perf_curve_draw(const perf_report *report);

/* perf_past.c: a former run, out of a JSON file that this program or nccl-tests wrote; the newest of its name. */
typedef struct perf_past {
    perf_rows rows;
    int ranks;           /* 0: the file does not say */
    char path[PATH_MAX]; /* of the file that was read */
} perf_past;
int perf_past_read(perf_past *past, const char *path, char *why, size_t size); /* 0, or -1 with a sentence in why */
const perf_row *perf_past_find(const perf_past *past, const perf_row *row);    /* the same work then, or NULL */
void perf_past_compare(const perf_report *report, const perf_past *past);

/* perf_plot.c: time and busbw over size, beside those of the former run, if any. 0, or -1 as perf_files.c. */
int perf_plot_write(const char *path, const perf_report *report, const perf_past *past);

#endif
