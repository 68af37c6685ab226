/* SPDX-License-Identifier: MIT */
/*
 * foreign: the flags of nccl-tests that hoop-bench has no use for. Each has one value that asks for what
 * hoop-bench does anyway, so that a line written for nccl-tests runs here. Pure.
 */
#ifndef PERF_FOREIGN_H
#define PERF_FOREIGN_H

#define PERF_FOREIGN_FLAGS "t:m:p:C:T:R:O:G:y:N:S:" /* for getopt */

typedef struct perf_foreign {
    char flag;
    long neutral;        /* the value that changes nothing */
    const char *instead; /* what to do in place of any other */
} perf_foreign;

const perf_foreign *perf_foreign_find(int flag); /* NULL: it is none of them */

#endif
