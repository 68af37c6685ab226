/* SPDX-License-Identifier: MIT */
/*
 * table: the results as text: nccl-tests' head, columns and foot, letter for letter, so that a program that reads theirs
 * reads ours; the curve of bus bandwidth on a terminal; comma-separated values. The share of the line is at the very end
 * of a row, and only where the speed of the links is known.
 */
#ifndef PERF_TABLE_H
#define PERF_TABLE_H

#include "perf/report.h"

/* To standard output. */
void perf_table_head(const perf_report *report);
void perf_table_columns(const perf_report *report, const char *coll);
void perf_table_begin(const perf_row *row); /* before a size is measured */
void perf_table_side(const perf_report *report, const perf_row *row, int place);
void perf_table_end(void);
void perf_table_foot(const perf_report *report);

void perf_curve_draw(const perf_report *report); /* bus bandwidth over size, of the first series, in characters */

int perf_csv_write(const char *path, const perf_report *report); /* 0, or -1 after a sentence on standard error */

#endif
