/* SPDX-License-Identifier: MIT */
/* bench_script: the picture of a report in gnuplot's words. A row of two panels for each collective, legend beside. */
#ifndef BENCH_SCRIPT_H
#define BENCH_SCRIPT_H

#include "bin/bench_report.h"

/*
 * The columns of the data file: the size, then for each curve (out of place and in place, now and then) the six
 * figures of bench_figures.
 */
enum { BENCH_SCRIPT_CURVES = 4, BENCH_SCRIPT_FIGURES = 6 };

void bench_script_write(FILE *script, const char *picture, const char *data, const bench_report *report,
                        const bench_past *past);

#endif
