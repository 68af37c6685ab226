/* SPDX-License-Identifier: MIT */
/*
 * check: fills a call's buffers with the pattern and counts what is wrong afterwards: every element received,
 * every element of a send buffer that was none of the library's business, every byte written beside the result.
 */
#ifndef PERF_CHECK_H
#define PERF_CHECK_H

#include "perf/coll.h"
#include "perf/memory.h"
#include "perf/pattern.h"

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
