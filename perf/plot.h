/* SPDX-License-Identifier: MIT */
/*
 * plot: time and bus bandwidth over size as a picture, beside those of the former run, if any. gnuplot draws it: a row
 * of two panels for each collective, with the legend beside them.
 */
#ifndef PERF_PLOT_H
#define PERF_PLOT_H

#include "perf/past.h"
#include "perf/report.h"

int perf_plot_write(const char *path, const perf_report *report,
                    const perf_past *past); /* 0, or -1 as perf_file_open */

#endif
