/* SPDX-License-Identifier: MIT */
/*
 * bench_check: fills a call's buffers with the pattern and counts what is wrong afterwards: every element received,
 * every element of a send buffer that was none of the library's business, every byte written beside the result.
 */
#ifndef BENCH_CHECK_H
#define BENCH_CHECK_H

#include "bin/bench_coll.h"
#include "bin/bench_memory.h"
#include "bin/bench_pattern.h"

typedef struct bench_check {
    const bench_coll *coll;
    bench_pattern pattern;
    const bench_call *call;
    bench_buffer *send, *recv; /* the call points into these; in place: into recv alone */
    int rank, in_place;
    uint8_t *table, *piece; /* BENCH_PERIOD elements each */
} bench_check;

int bench_check_open(bench_check *check); /* takes memory for table and piece: 0, or -1 */
void bench_check_close(bench_check *check);

void bench_check_fill(bench_check *check);
uint64_t bench_check_wrong(bench_check *check);

#endif
