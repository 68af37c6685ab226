/* SPDX-License-Identifier: MIT */
/*
 * report: the table has fixed columns; a number that is too wide for its column loses decimals. Of the statistics: each
 * sample is below the median with probability 1/2, and the rest is the binomial.
 */
#include "perf/report.h"

#include "base/json.h"
#include "hoop.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* --- statistics --- */

static int
ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

size_t
perf_stats_rank(size_t count)
{
    double n = (double)count, tail = 0;
    size_t k = 0;
    /* Probability that at most k of n samples fall below the median; both tails together may have 5 %. */
    while (k < count) {
        double i = (double)k;
        tail += exp(lgamma(n + 1) - lgamma(i + 1) - lgamma(n - i + 1) - n * log(2.0));
        if (2 * tail > 0.05)
            break;
        k++;
    }
    return k;
}

perf_stats
perf_stats_of(double *samples, size_t count)
{
    qsort(samples, count, sizeof(*samples), ascending);
    size_t rank = perf_stats_rank(count);
    perf_stats s = {.min = samples[0], .max = samples[count - 1], .low = 1, .high = 0};
    s.median = (samples[(count - 1) / 2] + samples[count / 2]) / 2;
    s.p99 = samples[count - 1 - count / 100];
    if (rank > 0) {
        s.low = samples[rank - 1];
        s.high = samples[count - rank];
    }
    return s;
}

int
perf_stats_has_interval(const perf_stats *stats)
{
    return stats->low <= stats->high;
}

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

uint64_t
perf_report_wrong(const perf_report *report)
{
    uint64_t wrong = 0;
    for (size_t i = 0; i < report->rows.count; i++)
        wrong += report->rows.row[i].side[0].wrong + report->rows.row[i].side[1].wrong;
    return wrong;
}

static double
mean_busbw(const perf_report *report)
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

/* --- the table --- */

enum { SIZE_TEXT = 16 };

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

/* What each place has is there twice. */
static void
column_line(const perf_report *report, const char *left, const char *side, const char *stats)
{
    stats = report->options->stats ? stats : "";
    printf("%s%s%s%s%s \n", left, side, stats, side, stats);
}

void
perf_table_columns(const perf_report *report, const char *coll)
{
    printf("#\n");
    if (report->options->coll == PERF_ALL)
        printf("# Collective: %s\n#\n", coll);
    if (report->options->stats)
        printf("# %10s  %12s  %8s  %6s  %6s  %-92s  %s\n", "", "", "", "", "",
               "         out-of-place (+ runs one by one)", "         in-place (+ runs one by one)");
    else
        printf("# %10s  %12s  %8s  %6s  %6s           out-of-place                       in-place          \n", "", "",
               "", "", "");
    column_line(report, "#       size         count      type   redop    root", "     time   algbw   busbw  #wrong",
                "    first   median      p99      min      max   ci_low  ci_high");
    column_line(report, "#        (B)    (elements)                          ", "     (us)  (GB/s)  (GB/s)        ",
                "     (us)     (us)     (us)     (us)     (us)     (us)     (us)");
}

void
perf_table_begin(const perf_row *row)
{
    printf("%12zu  %12zu  %8s  %6s  %6d", row->bytes, row->count, row->type, row->op, row->root);
    fflush(stdout);
}

void
perf_table_side(const perf_report *report, const perf_row *row, int place)
{
    const perf_side *side = &row->side[place];
    const perf_stats *s = &side->stats;
    const double stats[] = {side->first, s->median, s->p99, s->min, s->max, s->low, s->high};
    int known = side->absent ? 0 : perf_stats_has_interval(s) ? 7 : 5; /* of them */
    char time[8], algbw[7], busbw[7], text[8];
    if (side->absent) {
        printf("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
    } else {
        printf("  %7s  %6s  %6s", fit(time, 7, side->time * 1e6), fit(algbw, 6, side->algbw),
               fit(busbw, 6, side->busbw));
        if (row->checked)
            printf("  %6g", (double)side->wrong);
        else
            printf("    N/A");
    }
    for (int i = 0; i < 7 && report->options->stats; i++)
        printf("  %7s", i < known ? fit(text, 7, stats[i] * 1e6) : "N/A");
    fflush(stdout);
}

void
perf_table_end(void)
{
    printf("\n");
    fflush(stdout);
}

/* "4 KiB" with such units, or "4K"; a value of `most` gets the next unit. */
static const char *
print_size(size_t bytes, double most, int digits, const char *const units[5], char text[SIZE_TEXT])
{
    int unit = 0;
    double value = (double)bytes;
    for (; value >= most && unit < 4; unit++)
        value /= 1024;
    snprintf(text, SIZE_TEXT, "%.*g%s", digits, value, units[unit]);
    return text;
}

void
perf_table_foot(const perf_report *report)
{
    static const char *const units[] = {" B", " KiB", " MiB", " GiB", " TiB"};
    uint64_t wrong = perf_report_wrong(report);
    double worst = 0;
    size_t bytes = 0;
    char size[SIZE_TEXT];
    printf("# %-20s : %llu %s\n", "Out of bounds values", (unsigned long long)wrong, wrong != 0 ? "FAILED" : "OK");
    printf("# %-20s : %g \n", "Avg bus bandwidth", mean_busbw(report));
    /* The row and place whose first call was the slowest, by its own median. */
    for (size_t i = 0; i < 2 * report->rows.count; i++) {
        const perf_row *row = &report->rows.row[i / 2];
        const perf_side *side = &row->side[i % 2];
        double times = side->stats.median > 0 ? side->first / side->stats.median : 0;
        if (times > worst) {
            worst = times;
            bytes = row->bytes;
        }
    }
    printf("# %-20s : up to %.1f times the median (at %s); %s\n", "First call", worst,
           print_size(bytes, 1024, 4, units, size),
           report->options->stats ? "it counts in the column first only" : "not counted in the table");
    printf("#\n# Collective test concluded: hoop-bench\n#\n");
    fflush(stdout);
}

/* --- the curve on a terminal --- */

enum { HEIGHT = 10, WIDTH = 72, LEAST = 3 };

/* Whether they differ in their size only. */
static int
same_series(const perf_row *a, const perf_row *b)
{
    return strcmp(a->coll, b->coll) == 0 && strcmp(a->type, b->type) == 0 && strcmp(a->op, b->op) == 0 &&
           a->root == b->root;
}

static int
level(double value, double top)
{
    return (int)(value / top * (HEIGHT - 1) + 0.5);
}

void
perf_curve_draw(const perf_report *report)
{
    static const char *const units[] = {"", "K", "M", "G", "T"};
    const perf_row *row = report->rows.row;
    size_t count = 0, at = 0;
    double top = 0;
    for (; count < report->rows.count && count < WIDTH && same_series(&row[0], &row[count]); count++)
        for (int place = 0; place < 2; place++)
            top = row[count].side[place].busbw > top ? row[count].side[place].busbw : top;
    if (count < LEAST || top <= 0)
        return;
    size_t step = WIDTH / count > 6 ? 6 : WIDTH / count;
    printf("# Bus bandwidth of %s (%s, %s) in GB/s over size: o out of place, + in place, # both\n#\n", row->coll,
           row->type, row->op);
    for (int height = HEIGHT - 1; height >= 0; height--) {
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
    printf("# %8s +", "");
    for (size_t i = 0; i < count * step; i++)
        fputc('-', stdout);
    printf("\n# %8s  ", "");
    for (size_t i = 0; i < count; i++) {
        char label[SIZE_TEXT];
        print_size(row[i].bytes, 1000, 3, units, label); /* at most five characters */
        size_t end = (i + 1) * step;
        if (end >= strlen(label) + at + (at > 0))
            at += (size_t)printf("%*s", (int)(end - at), label);
    }
    printf("\n#\n");
}

/* --- comma-separated values --- */

int
perf_csv_write(const char *path, const perf_report *report)
{
    FILE *f = fopen(path, "w");
    int failed = !f;
    if (f) {
        fprintf(f, "coll,size,count,type,redop,root,place,iterations,time_us,algbw,busbw,wrong,first_us,median_us,"
                   "p99_us,min_us,max_us,ci95_low_us,ci95_high_us\n");
        for (size_t i = 0; i < 2 * report->rows.count; i++) {
            const perf_row *row = &report->rows.row[i / 2];
            const perf_side *side = &row->side[i % 2];
            const perf_stats *s = &side->stats;
            if (side->absent)
                continue;
            fprintf(f, "%s,%zu,%zu,%s,%s,%d,%s,%d,", row->coll, row->bytes, row->count, row->type, row->op, row->root,
                    i % 2 == 0 ? "out" : "in", report->options->iterations);
            fprintf(f, "%.3f,%.6f,%.6f,", side->time * 1e6, side->algbw, side->busbw);
            if (row->checked)
                fprintf(f, "%llu", (unsigned long long)side->wrong);
            fprintf(f, ",%.3f,%.3f,%.3f,%.3f,%.3f,", side->first * 1e6, s->median * 1e6, s->p99 * 1e6, s->min * 1e6,
                    s->max * 1e6);
            if (perf_stats_has_interval(s))
                fprintf(f, "%.3f,%.3f\n", s->low * 1e6, s->high * 1e6);
            else
                fprintf(f, ",\n");
        }
        failed = ferror(f);
        failed |= fclose(f) != 0; /* errors of buffered writing show here */
    }
    if (failed)
        fprintf(stderr, "hoop-bench: cannot write all of %s: %s\n", path, strerror(errno));
    return failed ? -1 : 0;
}

/* --- JSON --- */

enum { NUMBERED = 10000 };

/*
 * A new file, one that a run which did not come to its end has left empty, or a device. A run locks its file, so that no other
 * takes it for such a one. NULL with EEXIST: it has something, or is another run's.
 */
static FILE *
open_free(const char *name)
{
    struct stat st;
    int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0 && access(name, F_OK) == 0)
        errno = EEXIST;
    if (fd < 0)
        return NULL;
    int is_file = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    if (is_file && (flock(fd, LOCK_EX | LOCK_NB) != 0 || fstat(fd, &st) != 0 || st.st_size > 0)) {
        close(fd);
        errno = EEXIST;
        return NULL;
    }
    return fdopen(fd, "w");
}

/*
 * The first of a.json, a.0.json, a.1.json ... that is free: a number is before the last dot, so the name keeps its ending. A
 * folder of the first name is an error, since who names one expects the file in it.
 */
FILE *
perf_json_open(const char *path)
{
    char name[PATH_MAX];
    struct stat st;
    const char *slash = strrchr(path, '/'), *own = slash ? slash + 1 : path, *dot = strrchr(own, '.');
    if (!dot || dot == own)
        dot = own + strlen(own);
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        return NULL;
    }
    snprintf(name, sizeof(name), "%s", path);
    for (int number = 0; number < NUMBERED; number++) {
        FILE *file = open_free(name);
        if (file) {
            printf("# Writing JSON output to %s\n", name);
            return file;
        }
        if (errno != EEXIST)
            break;
        snprintf(name, sizeof(name), "%.*s.%d%s", (int)(dot - path), path, number, dot);
    }
    return NULL;
}

static const char *
truth(int value)
{
    return value ? "true" : "false"; /* nccl-tests has these as texts */
}

static void
write_config(hp_json *json, const perf_report *report)
{
    const perf_options *o = report->options;
    hp_json_object(json, "config");
    hp_json_integer(json, "nthreads", 1);
    hp_json_integer(json, "ngpus", o->gpus);
    hp_json_count(json, "minimum_bytes", o->min_bytes);
    hp_json_count(json, "maximum_bytes", o->max_bytes);
    if (o->step_factor > 1)
        hp_json_count(json, "step_factor", o->step_factor);
    else
        hp_json_count(json, "step_bytes", o->step_bytes);
    hp_json_integer(json, "warmup_iters", o->warmup);
    hp_json_integer(json, "iterations", o->iterations);
    hp_json_integer(json, "aggregated_iterations", 1);
    hp_json_integer(json, "validation", o->check);
    hp_json_integer(json, "graph", 0);
    hp_json_text(json, "blocking_collectives", truth(o->blocking));
    hp_json_text(json, "per_iter_timing", truth(o->stats));
    hp_json_integer(json, "per_iter_skip", 0);
    hp_json_text(json, "parallel_init", "false");
    hp_json_list(json, "devices");
    for (int i = 0; i < report->ranks; i++) {
        const perf_member *member = &report->members[i];
        hp_json_object(json, NULL);
        hp_json_integer(json, "rank", member->rank);
        hp_json_integer(json, "group", 0);
        hp_json_integer(json, "pid", member->pid);
        hp_json_text(json, "hostname", member->host);
        hp_json_integer(json, "device", 0);
        hp_json_text(json, "device_hex", "0000:00:00");
        hp_json_text(json, "device_info", member->device);
        hp_json_close(json);
    }
    hp_json_close(json);
    hp_json_close(json);
}

static void
write_side(hp_json *json, const char *key, const perf_row *row, const perf_side *side)
{
    const perf_stats *s = &side->stats;
    if (side->absent) {
        hp_json_null(json, key);
        return;
    }
    hp_json_object(json, key);
    hp_json_decimal(json, "time", side->time * 1e6, 6);
    hp_json_decimal(json, "alg_bw", side->algbw, 6);
    hp_json_decimal(json, "bus_bw", side->busbw, 6);
    if (row->checked)
        hp_json_decimal(json, "nwrong", (double)side->wrong, 6);
    else
        hp_json_null(json, "nwrong");
    hp_json_decimal(json, "first_us", side->first * 1e6, 6);
    hp_json_decimal(json, "median_us", s->median * 1e6, 6);
    hp_json_decimal(json, "p99_us", s->p99 * 1e6, 6);
    hp_json_decimal(json, "min_us", s->min * 1e6, 6);
    hp_json_decimal(json, "max_us", s->max * 1e6, 6);
    if (perf_stats_has_interval(s)) {
        hp_json_decimal(json, "ci95_low_us", s->low * 1e6, 6);
        hp_json_decimal(json, "ci95_high_us", s->high * 1e6, 6);
    }
    hp_json_close(json);
}

static void
write_results(hp_json *json, const perf_report *report)
{
    hp_json_list(json, "results");
    for (size_t i = 0; i < report->rows.count; i++) {
        const perf_row *row = &report->rows.row[i];
        char root[16];
        snprintf(root, sizeof(root), "%6d", row->root);
        hp_json_object(json, NULL);
        hp_json_count(json, "size", row->bytes);
        hp_json_count(json, "count", row->count);
        hp_json_text(json, "type", row->type);
        hp_json_text(json, "redop", row->op);
        hp_json_text(json, "root", root);
        write_side(json, "out_of_place", row, &row->side[0]);
        write_side(json, "in_place", row, &row->side[1]);
        hp_json_integer(json, "actual_iterations", report->options->iterations);
        hp_json_text(json, "experiment_name", row->coll);
        hp_json_close(json);
    }
    hp_json_close(json);
}

int
perf_json_close(FILE *file, const perf_report *report)
{
    hp_json writer, *json = &writer;
    char now[32];
    uint64_t wrong = perf_report_wrong(report);
    hp_json_begin(json, hp_json_to_file, file);
    hp_json_object(json, NULL);
    hp_json_integer(json, "version", 3);
    hp_json_text(json, "start_time", report->started);
    hp_json_list(json, "args");
    for (int i = 0; i < report->argc; i++)
        hp_json_text(json, NULL, report->argv[i]);
    hp_json_close(json);
    hp_json_list(json, "env");
    for (char **variable = environ; *variable; variable++)
        if (strncmp(*variable, "HOOP_", 5) == 0)
            hp_json_text(json, NULL, *variable);
    hp_json_close(json);
    hp_json_integer(json, "nccl_version", HOOP_VERSION_MAJOR * 10000 + HOOP_VERSION_MINOR * 100 + HOOP_VERSION_PATCH);
    hp_json_text(json, "hoop_version", hoop_version());
    write_config(json, report);
    write_results(json, report);
    perf_report_clock(now, sizeof(now));
    hp_json_object(json, "out_of_bounds");
    hp_json_count(json, "count", wrong);
    hp_json_text(json, "okay", truth(wrong == 0));
    hp_json_close(json);
    hp_json_object(json, "average_bus_bandwidth");
    hp_json_decimal(json, "bandwidth", mean_busbw(report), 6);
    hp_json_text(json, "okay", "unchecked");
    hp_json_close(json);
    hp_json_list(json, "errors");
    hp_json_close(json);
    hp_json_text(json, "end_time", now);
    hp_json_close(json);
    int failed = hp_json_end(json) != 0 || fputs("\n", file) == EOF;
    return fclose(file) != 0 || failed ? -1 : 0;
}
