/* SPDX-License-Identifier: MIT */
/* row: one line of results, as the tables, files and pictures see it. Times are in seconds, bandwidths in GB/s.
 */
#ifndef PERF_ROW_H
#define PERF_ROW_H

#include "perf/stats.h"

#include <stdint.h>

typedef struct perf_side {
    double time, algbw, busbw;
    double first; /* the first call at this size, which counts in nothing else */
    uint64_t wrong;
    perf_stats stats;
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

#endif
