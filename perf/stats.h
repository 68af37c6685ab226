/* SPDX-License-Identifier: MIT */
/*
 * stats: what a handful of timings says. The confidence interval is that of the median by order statistics: it
 * assumes nothing about how the timings are distributed.
 */
#ifndef PERF_STATS_H
#define PERF_STATS_H

#include <stddef.h>

typedef struct perf_stats {
    double median, min, max;
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

#endif
