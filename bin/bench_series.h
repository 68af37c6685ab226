/* SPDX-License-Identifier: MIT */
/*
 * bench_series: the rows of a report as a picture needs them. A series is a curve: one collective, type, operation and
 * root over its sizes. Sizes of 0 bytes have no place on a logarithmic axis and are left out. Pure.
 */
#ifndef BENCH_SERIES_H
#define BENCH_SERIES_H

#include "bin/bench_row.h"

typedef struct bench_series {
    const bench_row *row; /* its first */
    size_t count;
    int number; /* from 0 */
} bench_series;

/* The next series, at first that of {0}. 0: there is none. */
int bench_series_next(const bench_rows *rows, bench_series *series);

/* What is drawn of one place at one size. Without an interval low and high are the value; NAN: nothing to draw. */
typedef struct bench_figures {
    double time, low, high; /* microseconds */
    double busbw, bus_low, bus_high;
} bench_figures;

/* With `median` the median of the timed runs and its interval, else the mean. side may be NULL. */
bench_figures bench_figures_of(const bench_side *side, int median);

#endif
