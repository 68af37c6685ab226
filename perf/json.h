/* SPDX-License-Identifier: MIT */
/*
 * json: the file that nccl-tests' -J writes (its version 3), with hoop's own figures as further keys. Of the environment
 * it has HOOP_ variables only: others may be nobody's business.
 */
#ifndef PERF_JSON_H
#define PERF_JSON_H

#include "perf/report.h"

/* An existing file is left alone, and the next free number of perf_file_numbered() written. NULL: errno says why. */
FILE *perf_json_open(const char *path);
int perf_json_close(FILE *file, const perf_report *report); /* writes it. 0, or -1: not all could be written */

#endif
