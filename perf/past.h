/* SPDX-License-Identifier: MIT */
/*
 * past: a former run, from a JSON file that this program or nccl-tests wrote, beside this one. libjansson reads it; a
 * build without libjansson says so.
 */
#ifndef PERF_PAST_H
#define PERF_PAST_H

#include "perf/report.h"

typedef struct perf_past {
    perf_rows rows;
    int ranks;           /* 0: the file does not say */
    char path[PATH_MAX]; /* of the file that was read */
} perf_past;

/* Reads the newest file of this name. 0, or -1 with a sentence in why. */
int perf_past_read(perf_past *past, const char *path, char *why, size_t size);
const perf_row *perf_past_find(const perf_past *past, const perf_row *row); /* the same work then, or NULL */
void perf_past_compare(const perf_report *report, const perf_past *past);

#endif
