/* SPDX-License-Identifier: MIT */
/* report: rows, what they add up to, and the files that rank 0 writes. */
#include "perf/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

/* --- files --- */

FILE *
perf_file_open(const char *path)
{
    FILE *file = fopen(path, "w");
    if (!file)
        fprintf(stderr, "hoop-bench: cannot write %s: %s\n", path, strerror(errno));
    return file;
}

/* Errors of buffered writing show when the file is closed. */
int
perf_file_close(FILE *file, const char *path)
{
    int failed = ferror(file);
    if (fclose(file) == 0 && !failed)
        return 0;
    fprintf(stderr, "hoop-bench: cannot write all of %s: %s\n", path, strerror(errno));
    return -1;
}

/* The number goes before the last dot of the file's own name, so that it keeps its ending. */
const char *
perf_file_numbered(const char *path, int number, char name[PATH_MAX])
{
    const char *slash = strrchr(path, '/'), *own = slash ? slash + 1 : path, *dot = strrchr(own, '.');
    if (!dot || dot == own)
        dot = own + strlen(own);
    if (number == 0)
        snprintf(name, PATH_MAX, "%s", path);
    else
        snprintf(name, PATH_MAX, "%.*s.%d%s", (int)(dot - path), path, number - 1, dot);
    return name;
}

static int
is_later(const struct stat *a, const struct stat *b)
{
    if (a->st_mtim.tv_sec != b->st_mtim.tv_sec)
        return a->st_mtim.tv_sec > b->st_mtim.tv_sec;
    return a->st_mtim.tv_nsec >= b->st_mtim.tv_nsec;
}

const char *
perf_file_newest(const char *path, char name[PATH_MAX])
{
    struct stat one, best = {0};
    int newest = 0;
    for (int number = 0; number < PERF_NUMBERED; number++)
        if (stat(perf_file_numbered(path, number, name), &one) == 0 && is_later(&one, &best)) {
            best = one;
            newest = number;
        }
    return perf_file_numbered(path, newest, name);
}
