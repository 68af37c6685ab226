/* SPDX-License-Identifier: MIT */
/*
 * bench_report: what a run has found, and the forms in which rank 0 tells it: nccl-tests' table and JSON, a table for
 * spreadsheets, a curve on the terminal, a picture, a comparison with a former run. Nothing here measures.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "bin/bench_line.h"
#include "bin/bench_options.h"
#include "bin/bench_row.h"

#include <limits.h>
#include <stdio.h>

typedef struct bench_member { /* a rank, as it introduces itself */
    int rank, pid;
    char host[64], device[64], interface[BENCH_INTERFACE];
    double line; /* bits a second that its interface states; 0: unknown */
} bench_member;

typedef struct bench_report {
    const bench_options *options;
    int argc;
    char **argv;
    int ranks;
    const bench_member *members; /* of all ranks, in their order */
    double line;                 /* bits a second of the slowest link, for %line; 0: there is no such column */
    bench_rows rows;
    char started[32]; /* wall clock */
} bench_report;

/* bench_table.c: to standard output. */
void bench_table_head(const bench_report *report);
void bench_table_columns(const bench_report *report, const char *coll);
void bench_table_begin(const bench_row *row); /* before a size is measured */
void bench_table_side(const bench_report *report, const bench_row *row, int place);
void bench_table_end(void);
void bench_table_foot(const bench_report *report);

uint64_t bench_report_wrong(const bench_report *report);
double bench_report_busbw(const bench_report *report);
void bench_report_clock(char *text, size_t size);              /* "2026-11-20 13:25:00" */
int bench_same_series(const bench_row *a, const bench_row *b); /* all but the size is the same */
int bench_rows_add(bench_rows *rows, const bench_row *row);    /* 0, or -1 out of memory */

enum { BENCH_SIZE_TEXT = 16 };
const char *bench_size_print(size_t bytes, char text[BENCH_SIZE_TEXT]); /* "4 KiB" */

/* bench_json.c. An existing file is left alone, and the next free number of bench_file_numbered() written. */
FILE *bench_json_open(const char *path); /* NULL: errno says why */
void bench_json_write(FILE *file, const bench_report *report);

/* bench_files.c. 0, or -1 with a sentence on standard error. */
FILE *bench_file_open(const char *path); /* to be written anew; NULL as above */
int bench_file_close(FILE *file, const char *path);
int bench_csv_write(const char *path, const bench_report *report);

/* The names of several runs' files: a.json, a.0.json, a.1.json ... for number 0, 1, 2 ... */
enum { BENCH_NUMBERED = 10000 };
const char *bench_file_numbered(const char *path, int number, char name[PATH_MAX]);
/* Of these names the one whose file was written last; the path itself where there is none. */
const char *bench_file_newest(const char *path, char name[PATH_MAX]);

/* bench_curve.c: busbw over size, drawn with characters. */
void bench_curve_draw(const bench_report *report);

/* bench_past.c: a former run, out of a JSON file that this program or nccl-tests wrote; the newest of its name. */
typedef struct bench_past {
    bench_rows rows;
    int ranks;           /* 0: the file does not say */
    char path[PATH_MAX]; /* of the file that was read */
} bench_past;
int bench_past_read(bench_past *past, const char *path, char *why, size_t size); /* 0, or -1 with a sentence in why */
const bench_row *bench_past_find(const bench_past *past, const bench_row *row);  /* the same work then, or NULL */
void bench_past_compare(const bench_report *report, const bench_past *past);

/* bench_plot.c: time and busbw over size, beside those of the former run, if any. 0, or -1 as bench_files.c. */
int bench_plot_write(const char *path, const bench_report *report, const bench_past *past);

#endif
