/* SPDX-License-Identifier: MIT */
/*
 * data: the numbers that every rank sends, those that must come back, and how many did not. The numbers are chosen so
 * that every reduction of them is exact in any order of the ranks: results are compared bit by bit. The exception is the
 * mean of 16- and 8-bit floats, which is rounded at every join, and must lie within the bound of hoop_allreduce(3). The
 * pattern repeats after PERF_PERIOD elements, a prime, so that a slice at a wrong place is never right by chance.
 */
#ifndef PERF_DATA_H
#define PERF_DATA_H

#include "perf/collectives.h"
#include "perf/memory.h"

enum { PERF_PERIOD = 65521 };

typedef struct perf_pattern {
    const perf_type *type;
    int op; /* a hoop_op; -1 where data only moves */
    int ranks;
    int ordered; /* the elements are combined in rank order: then small floats' means, too, are known to the bit; 2: by host */
    int brief;   /* elements of float32 travel with so many digits, sums are exact there, too, */
    int rounded; /* and means are rounded to them; 0: with all */
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

typedef struct perf_check {
    const perf_coll *coll;
    perf_pattern pattern;
    const perf_call *call;
    perf_buffer *send, *recv; /* the call points into these; in place: into recv alone */
    int rank, in_place;
    uint8_t *table, *piece; /* PERF_PERIOD elements each */
} perf_check;

int perf_check_open(perf_check *check); /* takes memory for table and piece: 0, or -1 */
void perf_check_close(perf_check *check);

void perf_check_fill(perf_check *check);
uint64_t perf_check_wrong(perf_check *check);

#endif
