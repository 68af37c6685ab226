/* SPDX-License-Identifier: MIT */
/* files: files that results are written to, and the results as comma-separated values. */
#include "perf/report.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

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
    const char *slash = strrchr(path, '/'), *own = !slash ? path : slash + 1, *dot = strrchr(own, '.');
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

static void
csv_line(FILE *f, const perf_report *report, const perf_row *row, int place)
{
    const perf_side *side = &row->side[place];
    const perf_stats *s = &side->stats;
    fprintf(f, "%s,%zu,%zu,%s,%s,%d,%s,%d,", row->coll, row->bytes, row->count, row->type, row->op, row->root,
            place == 0 ? "out" : "in", report->options->iterations);
    fprintf(f, "%.3f,%.6f,%.6f,", side->time * 1e6, side->algbw, side->busbw);
    if (row->checked)
        fprintf(f, "%llu", (unsigned long long)side->wrong);
    fprintf(f, ",%.3f,%.3f,%.3f,%.3f,", side->first * 1e6, s->median * 1e6, s->min * 1e6, s->max * 1e6);
    if (perf_stats_has_interval(s))
        fprintf(f, "%.3f,%.3f,", s->low * 1e6, s->high * 1e6);
    else
        fprintf(f, ",,");
    if (report->line > 0)
        fprintf(f, "%.3f", perf_line_share(side->busbw, report->line));
    fprintf(f, "\n");
}

int
perf_csv_write(const char *path, const perf_report *report)
{
    FILE *f = perf_file_open(path);
    if (!f)
        return -1;
    fprintf(f, "coll,size,count,type,redop,root,place,iterations,time_us,algbw,busbw,wrong,first_us,median_us,min_us,"
               "max_us,ci95_low_us,ci95_high_us,line_percent\n");
    for (size_t i = 0; i < 2 * report->rows.count; i++)
        csv_line(f, report, &report->rows.row[i / 2], (int)(i % 2));
    return perf_file_close(f, path);
}
