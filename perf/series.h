/* SPDX-License-Identifier: MIT */
/*
 * series: the rows of a report as a picture needs them. A series is a curve: one collective, type, operation and
 * root over its sizes. Sizes of 0 bytes have no place on a logarithmic axis and are left out. Pure.
 */
#ifndef PERF_SERIES_H
#define PERF_SERIES_H

#include "perf/row.h"

typedef struct perf_series {
    const perf_row *row; /* its first */
    size_t count;
    int number; /* from 0 */
} perf_series;

/* The next series, at first that of {0}. 0: there is none. */
int perf_series_next(const perf_rows *rows, perf_series *series);

/* What is drawn of one place at one size. Without an interval low and high are the value; NAN: nothing to draw. */
typedef struct perf_figures {
    double time, low, high; /* microseconds */
    double busbw, bus_low, bus_high;
} perf_figures;

/* With `median` the median of the timed runs and its interval, else the mean. side may be NULL. */
perf_figures perf_figures_of(const perf_side *side, int median);

#endif
