/* SPDX-License-Identifier: MIT */
/*
 * bench_pattern: what every rank sends, and what must come back, element by element and bit by bit. The numbers are
 * chosen so that every reduction of them is exact whatever the order: nothing is compared "within a tolerance", but for
 * means of 16- and 8-bit floats, which are rounded at every join, as hoop_allreduce(3) says and bounds. The pattern
 * repeats after BENCH_PERIOD elements, a prime, so that a slice at a wrong place is never right by chance.
 */
#ifndef BENCH_PATTERN_H
#define BENCH_PATTERN_H

#include "bin/bench_types.h"

enum { BENCH_PERIOD = 65521 };

typedef struct bench_pattern {
    const bench_type *type;
    int op; /* a hoop_op; -1 where data only moves */
    int ranks;
    uint64_t seed;
} bench_pattern;

/* Elements 0 ... entries-1 of what `rank` sends. table: entries * type->size bytes, entries <= BENCH_PERIOD. */
void bench_pattern_send(const bench_pattern *pattern, int rank, void *table, size_t entries);

/* Likewise of the reduction over all ranks, unless it is rounded. */
void bench_pattern_reduced(const bench_pattern *pattern, void *table, size_t entries);

/* From where to where a rounded reduction may be, both included, by their order. */
typedef struct bench_range {
    int32_t least, greatest;
} bench_range;
int bench_pattern_is_rounded(const bench_pattern *pattern);
void bench_pattern_range(const bench_pattern *pattern, bench_range *table, size_t entries);

#endif
