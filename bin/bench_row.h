/* SPDX-License-Identifier: MIT */
/* bench_row: one line of results, as the tables, files and pictures see it. Times are in seconds, bandwidths in GB/s.
 */
#ifndef BENCH_ROW_H
#define BENCH_ROW_H

#include "bin/bench_stats.h"

#include <stdint.h>

typedef struct bench_side {
    double time, algbw, busbw;
    double first; /* the first call at this size, which counts in nothing else */
    uint64_t wrong;
    bench_stats stats;
} bench_side;

typedef struct bench_row {
    const char *coll, *type, *op; /* static strings; "none" where there is none */
    size_t bytes, count;
    int root;           /* -1: none */
    int checked;        /* 0: wrong was not counted */
    bench_side side[2]; /* out of place, in place */
} bench_row;

typedef struct bench_rows {
    bench_row *row;
    size_t count, room;
} bench_rows;

#endif
