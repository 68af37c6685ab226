/* SPDX-License-Identifier: MIT */
/* report: rows, and what they add up to. */
#include "perf/report.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* --- rows --- */

void
perf_report_clock(char *text, size_t size)
{
    time_t now;
    struct tm parts;
    time(&now); /* the date, for the reader of a file; nothing is measured by it */
    if (!localtime_r(&now, &parts) || strftime(text, size, "%Y-%m-%d %H:%M:%S", &parts) == 0)
        snprintf(text, size, "unknown");
}

int
perf_rows_add(perf_rows *rows, const perf_row *row)
{
    if (rows->count == rows->room) {
        size_t room = rows->room == 0 ? 64 : 2 * rows->room;
        perf_row *grown = realloc(rows->row, room * sizeof(*grown));
        if (!grown)
            return -1;
        rows->row = grown;
        rows->room = room;
    }
    rows->row[rows->count++] = *row;
    return 0;
}

int
perf_same_series(const perf_row *a, const perf_row *b)
{
    return strcmp(a->coll, b->coll) == 0 && strcmp(a->type, b->type) == 0 && strcmp(a->op, b->op) == 0 &&
           a->root == b->root;
}

uint64_t
perf_report_wrong(const perf_report *report)
{
    uint64_t wrong = 0;
    for (size_t i = 0; i < report->rows.count; i++)
        wrong += report->rows.row[i].side[0].wrong + report->rows.row[i].side[1].wrong;
    return wrong;
}

double
perf_report_busbw(const perf_report *report)
{
    double sum = 0;
    size_t sides = 0;
    for (size_t i = 0; i < 2 * report->rows.count; i++) {
        const perf_side *side = &report->rows.row[i / 2].side[i % 2];
        sum += side->busbw;
        sides += !side->absent;
    }
    return sides == 0 ? 0 : sum / (double)sides;
}

const char *
perf_size_print(size_t bytes, char text[PERF_SIZE_TEXT])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    double value = (double)bytes;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    snprintf(text, PERF_SIZE_TEXT, "%.4g %s", value, units[unit]);
    return text;
}
