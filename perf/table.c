/* SPDX-License-Identifier: MIT */
/* table: fixed columns; a number that is too wide for its column loses decimals. */
#include "perf/table.h"

#include "hoop.h"

#include <errno.h>
#include <string.h>

/* A number in at most `width` characters, with as many decimals as fit (two at most). */
static const char *
fit(char *out, int width, double value)
{
    size_t room = (size_t)width + 1;
    for (int decimals = 2; decimals >= 0; decimals--)
        if (snprintf(out, room, "%*.*f", width, decimals, value) <= width)
            return out;
    snprintf(out, room, width >= 7 ? "%*.1e" : "%*.0e", width, value);
    return out;
}

void
perf_table_head(const perf_report *report)
{
    const perf_options *o = report->options;
    int by_factor = o->step_factor > 1;
    printf("# hoop-bench version %d.%d.%d hoop-headers=%d hoop-library=%s\n", HOOP_VERSION_MAJOR, HOOP_VERSION_MINOR,
           HOOP_VERSION_PATCH, HOOP_VERSION_MAJOR * 10000 + HOOP_VERSION_MINOR * 100 + HOOP_VERSION_PATCH,
           hoop_version());
    printf("# Collective test starting: hoop-bench\n");
    printf("# nThread 1 nGpus %d minBytes %zu maxBytes %zu step: %zu(%s) warmup iters: %d iters: %d agg iters: 1 "
           "validation: %d graph: 0 unalign: 0\n",
           o->gpus, o->min_bytes, o->max_bytes, by_factor ? o->step_factor : o->step_bytes,
           by_factor ? "factor" : "bytes", o->warmup, o->iterations, o->check);
    printf("#\n# Using devices\n");
    for (int i = 0; i < report->ranks; i++) {
        const perf_member *m = &report->members[i];
        printf("#  Rank %2d Group %2d Pid %6d on %10s device %2d [%04x:%02x:%02x] %s\n", m->rank, 0, m->pid, m->host, 0,
               0U, 0U, 0U, m->device);
    }
}

static void
stats_columns(const char *first, const char *median, const char *least, const char *most, const char *low,
              const char *high)
{
    printf("  %7s  %7s  %7s  %7s  %7s  %7s", first, median, least, most, low, high);
}

static void
column_line(const perf_report *report, const char *const left[5], const char *time, const char *bandwidth[2],
            const char *wrong, int units)
{
    printf("# %10s  %12s  %8s  %6s  %6s", left[0], left[1], left[2], left[3], left[4]);
    for (int place = 0; place < 2; place++) {
        printf("  %7s  %6s  %6s  %6s", time, bandwidth[0], bandwidth[1], wrong);
        if (report->options->stats && units)
            stats_columns("(us)", "(us)", "(us)", "(us)", "(us)", "(us)");
        else if (report->options->stats)
            stats_columns("first", "median", "min", "max", "ci_low", "ci_high");
    }
    printf(" \n");
}

void
perf_table_columns(const perf_report *report, const char *coll)
{
    static const char *const names[] = {"size", "count", "type", "redop", "root"};
    static const char *const units[] = {"(B)", "(elements)", "", "", ""};
    printf("#\n");
    if (report->options->coll == PERF_ALL)
        printf("# Collective: %s\n#\n", coll);
    if (report->options->stats)
        printf("# %10s  %12s  %8s  %6s  %6s  %-83s  %s\n", "", "", "", "", "",
               "         out-of-place (+ runs one by one)", "         in-place (+ runs one by one)");
    else
        printf("# %10s  %12s  %8s  %6s  %6s           out-of-place                       in-place          \n", "", "",
               "", "", "");
    column_line(report, names, "time", (const char *[]){"algbw", "busbw"}, "#wrong", 0);
    column_line(report, units, "(us)", (const char *[]){"(GB/s)", "(GB/s)"}, "", 1);
}

void
perf_table_begin(const perf_row *row)
{
    printf("%12zu  %12zu  %8s  %6s  %6d", row->bytes, row->count, row->type, row->op, row->root);
    fflush(stdout);
}

static void
stats_of(const perf_side *side)
{
    const perf_stats *s = &side->stats;
    char first[8], median[8], least[8], most[8], low[8] = "N/A", high[8] = "N/A";
    if (perf_stats_has_interval(s)) {
        fit(low, 7, s->low * 1e6);
        fit(high, 7, s->high * 1e6);
    }
    stats_columns(fit(first, 7, side->first * 1e6), fit(median, 7, s->median * 1e6), fit(least, 7, s->min * 1e6),
                  fit(most, 7, s->max * 1e6), low, high);
}

static void
absent_side(const perf_report *report)
{
    printf("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
    if (report->options->stats)
        stats_columns("N/A", "N/A", "N/A", "N/A", "N/A", "N/A");
}

static void
side_columns(const perf_report *report, const perf_row *row, const perf_side *side)
{
    char time[8], algbw[7], busbw[7];
    printf("  %7s  %6s  %6s", fit(time, 7, side->time * 1e6), fit(algbw, 6, side->algbw), fit(busbw, 6, side->busbw));
    if (row->checked)
        printf("  %6g", (double)side->wrong);
    else
        printf("    N/A");
    if (report->options->stats)
        stats_of(side);
}

void
perf_table_side(const perf_report *report, const perf_row *row, int place)
{
    if (row->side[place].absent)
        absent_side(report);
    else
        side_columns(report, row, &row->side[place]);
    fflush(stdout);
}

void
perf_table_end(void)
{
    printf("\n");
    fflush(stdout);
}

/* The row and place whose first call was the slowest, by its own median. */
static void
first_calls(const perf_report *report)
{
    double worst = 0;
    size_t bytes = 0;
    char size[PERF_SIZE_TEXT];
    for (size_t i = 0; i < 2 * report->rows.count; i++) {
        const perf_row *row = &report->rows.row[i / 2];
        const perf_side *side = &row->side[i % 2];
        double times = side->stats.median > 0 ? side->first / side->stats.median : 0;
        if (times > worst) {
            worst = times;
            bytes = row->bytes;
        }
    }
    printf("# %-20s : up to %.1f times the median (at %s); %s\n", "First call", worst, perf_size_print(bytes, size),
           report->options->stats ? "it counts in the column first only" : "not counted in the table");
}

void
perf_table_foot(const perf_report *report)
{
    uint64_t wrong = perf_report_wrong(report);
    printf("# %-20s : %llu %s\n", "Out of bounds values", (unsigned long long)wrong, wrong != 0 ? "FAILED" : "OK");
    printf("# %-20s : %g \n", "Avg bus bandwidth", perf_report_busbw(report));
    first_calls(report);
    printf("#\n# Collective test concluded: hoop-bench\n#\n");
    fflush(stdout);
}

/* --- the curve on a terminal --- */

enum { HEIGHT = 10, WIDTH = 72, LEAST = 3 };

static size_t
series_length(const perf_rows *rows)
{
    size_t length = 0;
    while (length < rows->count && length < WIDTH && perf_same_series(&rows->row[0], &rows->row[length]))
        length++;
    return length;
}

static double
highest(const perf_row *row, size_t count)
{
    double top = 0;
    for (size_t i = 0; i < 2 * count; i++)
        if (row[i / 2].side[i % 2].busbw > top)
            top = row[i / 2].side[i % 2].busbw;
    return top;
}

static int
level(double value, double top)
{
    return (int)(value / top * (HEIGHT - 1) + 0.5);
}

static void
curve_line(const perf_row *row, size_t count, size_t step, double top, int height)
{
    if (height % 3 == 0)
        printf("# %8.3g |", top * height / (HEIGHT - 1));
    else
        printf("# %8s |", "");
    for (size_t i = 0; i < count; i++) {
        int out = level(row[i].side[0].busbw, top) == height;
        int in = !row[i].side[1].absent && level(row[i].side[1].busbw, top) == height;
        printf("%*s%c", (int)step - 1, "", out && in ? '#' : out ? 'o' : in ? '+' : ' ');
    }
    printf("\n");
}

/* "64K": at most five characters. */
static void
short_size(char *out, size_t room, size_t bytes)
{
    static const char *const units[] = {"", "K", "M", "G", "T"};
    int unit = 0;
    double value = (double)bytes;
    for (; value >= 1000 && unit < 4; unit++)
        value /= 1024;
    snprintf(out, room, "%.3g%s", value, units[unit]);
}

static void
curve_axis(const perf_row *row, size_t count, size_t step)
{
    printf("# %8s +", "");
    for (size_t i = 0; i < count * step; i++)
        fputc('-', stdout);
    printf("\n# %8s  ", "");
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        char label[16];
        short_size(label, sizeof(label), row[i].bytes);
        size_t end = (i + 1) * step;
        if (end < strlen(label) + at + (at > 0))
            continue;
        at += (size_t)printf("%*s", (int)(end - at), label);
    }
    printf("\n#\n");
}

void
perf_curve_draw(const perf_report *report)
{
    const perf_row *row = report->rows.row;
    size_t count = series_length(&report->rows), step;
    double top = highest(row, count);
    if (count < LEAST || top <= 0)
        return;
    step = WIDTH / count > 6 ? 6 : WIDTH / count;
    printf("# Bus bandwidth of %s (%s, %s) in GB/s over size: o out of place, + in place, # both\n#\n", row->coll,
           row->type, row->op);
    for (int height = HEIGHT - 1; height >= 0; height--)
        curve_line(row, count, step, top, height);
    curve_axis(row, count, step);
}

/* --- comma-separated values --- */

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
        fprintf(f, "%.3f,%.3f\n", s->low * 1e6, s->high * 1e6);
    else
        fprintf(f, ",\n");
}

int
perf_csv_write(const char *path, const perf_report *report)
{
    FILE *f = fopen(path, "w");
    int failed = !f;
    if (f) {
        fprintf(f, "coll,size,count,type,redop,root,place,iterations,time_us,algbw,busbw,wrong,first_us,median_us,"
                   "min_us,max_us,ci95_low_us,ci95_high_us\n");
        for (size_t i = 0; i < 2 * report->rows.count; i++)
            if (!report->rows.row[i / 2].side[i % 2].absent)
                csv_line(f, report, &report->rows.row[i / 2], (int)(i % 2));
        failed = ferror(f);
        failed |= fclose(f) != 0; /* errors of buffered writing show here */
    }
    if (failed)
        fprintf(stderr, "hoop-bench: cannot write all of %s: %s\n", path, strerror(errno));
    return failed ? -1 : 0;
}
