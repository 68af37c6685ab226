/* SPDX-License-Identifier: MIT */
/*
 * pattern: what every rank sends, and what must come back, element by element and bit by bit. The numbers are
 * chosen so that every reduction of them is exact whatever the order: nothing is compared "within a tolerance", but for
 * means of 16- and 8-bit floats, which are rounded at every join, as hoop_allreduce(3) says and bounds. The pattern
 * repeats after PERF_PERIOD elements, a prime, so that a slice at a wrong place is never right by chance.
 */
#ifndef PERF_PATTERN_H
#define PERF_PATTERN_H

#include "perf/types.h"

enum { PERF_PERIOD = 65521 };

typedef struct perf_pattern {
    const perf_type *type;
    int op; /* a hoop_op; -1 where data only moves */
    int ranks;
    uint64_t seed;
} perf_pattern;

/* Elements 0 ... entries-1 of what `rank` sends. table: entries * type->size bytes, entries <= PERF_PERIOD. */
void perf_pattern_send(const perf_pattern *pattern, int rank, void *table, size_t entries);

/* Likewise of the reduction over all ranks, unless it is rounded. */
void perf_pattern_reduced(const perf_pattern *pattern, void *table, size_t entries);

/* From where to where a rounded reduction may be, both included, by their order. */
typedef struct perf_range {
    int32_t least, greatest;
} perf_range;
int perf_pattern_is_rounded(const perf_pattern *pattern);
void perf_pattern_range(const perf_pattern *pattern, perf_range *table, size_t entries);

#endif
