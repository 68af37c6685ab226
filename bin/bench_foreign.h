/* SPDX-License-Identifier: MIT */
/*
 * bench_foreign: the flags of nccl-tests that hoop-bench has no use for. Each has one value that asks for what
 * hoop-bench does anyway, so that a line written for nccl-tests runs here. Pure.
 */
#ifndef BENCH_FOREIGN_H
#define BENCH_FOREIGN_H

#define BENCH_FOREIGN_FLAGS "t:m:p:C:T:R:O:G:y:N:S:" /* for getopt */

typedef struct bench_foreign {
    char flag;
    long neutral;        /* the value that changes nothing */
    const char *instead; /* what to do in place of any other */
} bench_foreign;

const bench_foreign *bench_foreign_find(int flag); /* NULL: it is none of them */

#endif
