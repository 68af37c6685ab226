/* SPDX-License-Identifier: MIT */
/* script: the picture of a report in gnuplot's words. A row of two panels for each collective, legend beside. */
#ifndef PERF_SCRIPT_H
#define PERF_SCRIPT_H

#include "perf/report.h"

/*
 * The columns of the data file: the size, then for each curve (out of place and in place, now and then) the six
 * figures of perf_figures.
 */
enum { PERF_SCRIPT_CURVES = 4, PERF_SCRIPT_FIGURES = 6 };

void perf_script_write(FILE *script, const char *picture, const char *data, const perf_report *report,
                       const perf_past *past);

#endif
