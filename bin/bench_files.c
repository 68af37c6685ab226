/* SPDX-License-Identifier: MIT */
/*
 * bench_files: the results as comma-separated values, and as a picture drawn by gnuplot. Where there is no gnuplot, its
 * script and data are left behind, and one line says so.
 */
#include "bin/bench_report.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static FILE *
open_new(const char *path)
{
    FILE *file = fopen(path, "w");
    if (file == NULL)
        fprintf(stderr, "hoop-bench: cannot write %s: %s\n", path, strerror(errno));
    return file;
}

/* Errors of buffered writing show when the file is closed. */
static int
close_written(FILE *file, const char *path)
{
    int failed = ferror(file);
    if (fclose(file) == 0 && !failed)
        return 0;
    fprintf(stderr, "hoop-bench: cannot write all of %s: %s\n", path, strerror(errno));
    return -1;
}

static void
csv_line(FILE *f, const bench_report *report, const bench_row *row, int place)
{
    const bench_side *side = &row->side[place];
    const bench_stats *s = &side->stats;
    fprintf(f, "%s,%zu,%zu,%s,%s,%d,%s,%d,", row->coll, row->bytes, row->count, row->type, row->op, row->root,
            place == 0 ? "out" : "in", report->options->iterations);
    fprintf(f, "%.3f,%.6f,%.6f,", side->time * 1e6, side->algbw, side->busbw);
    if (row->checked)
        fprintf(f, "%llu", (unsigned long long)side->wrong);
    fprintf(f, ",%.3f,%.3f,%.3f,%.3f,", side->first * 1e6, s->median * 1e6, s->min * 1e6, s->max * 1e6);
    if (s->low <= s->high)
        fprintf(f, "%.3f,%.3f\n", s->low * 1e6, s->high * 1e6);
    else
        fprintf(f, ",\n");
}

int
bench_csv_write(const char *path, const bench_report *report)
{
    FILE *f = open_new(path);
    if (f == NULL)
        return -1;
    fprintf(f, "coll,size,count,type,redop,root,place,iterations,time_us,algbw,busbw,wrong,first_us,median_us,min_us,"
               "max_us,ci95_low_us,ci95_high_us\n");
    for (size_t i = 0; i < 2 * report->rows.count; i++)
        csv_line(f, report, &report->rows.row[i / 2], (int)(i % 2));
    return close_written(f, path);
}

/* gnuplot's data: a blank line ends a curve, two end a data set. One set for each collective, type and operation. */
static int
write_data(const char *path, const bench_report *report)
{
    FILE *f = open_new(path);
    if (f == NULL)
        return -1;
    fprintf(f, "# size_B busbw_out busbw_in median_out_us median_in_us\n");
    for (size_t i = 0; i < report->rows.count; i++) {
        const bench_row *row = &report->rows.row[i];
        if (i > 0 && !bench_same_series(row, row - 1))
            fprintf(f, "\n\n");
        fprintf(f, "%zu %.6f %.6f %.3f %.3f\n", row->bytes, row->side[0].busbw, row->side[1].busbw,
                row->side[0].stats.median * 1e6, row->side[1].stats.median * 1e6);
    }
    return close_written(f, path);
}

static void
write_curves(FILE *f, const bench_report *report, const char *data)
{
    int set = 0;
    for (size_t i = 0; i < report->rows.count; i++) {
        const bench_row *row = &report->rows.row[i];
        if (i > 0 && bench_same_series(row, row - 1))
            continue;
        fprintf(f, "%s'%s' index %d using 1:2 with linespoints title '%s %s %s', ", set == 0 ? "plot " : ", ", data,
                set, row->coll, row->type, row->op);
        fprintf(f, "'' index %d using 1:3 with linespoints title 'in place'", set);
        set++;
    }
    fprintf(f, "\n");
}

static int
write_script(const char *path, const char *picture, const char *data, const bench_report *report)
{
    FILE *f = open_new(path);
    if (f == NULL)
        return -1;
    const char *terminal = strcmp(picture + strlen(picture) - 4, ".png") == 0 ? "png size 960,640" : "svg size 960,640";
    fprintf(f, "set terminal %s\nset output '%s'\n", terminal, picture);
    fprintf(f, "set title 'hoop-bench, %d ranks'\nset xlabel 'size'\nset ylabel 'bus bandwidth, GB/s'\n",
            report->ranks);
    fprintf(f, "set logscale x 2\nset format x '%%.0b %%BB'\nset grid\nset key left top\nset yrange [0:*]\n");
    write_curves(f, report, data);
    return close_written(f, path);
}

/* 1 when gnuplot ran and was content. */
static int
run_gnuplot(const char *script)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execlp("gnuplot", "gnuplot", script, (char *)NULL);
        _exit(127);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int
bench_plot_write(const char *path, const bench_report *report)
{
    char data[PATH_MAX], script[PATH_MAX];
    snprintf(data, sizeof(data), "%s.dat", path);
    snprintf(script, sizeof(script), "%s.gp", path);
    if (write_data(data, report) != 0 || write_script(script, path, data, report) != 0)
        return -1;
    if (run_gnuplot(script)) {
        unlink(data);
        unlink(script);
        printf("# Plot: %s\n", path);
    } else
        printf("# Plot: gnuplot could not be run here; its script and data are %s and %s: gnuplot %s draws %s\n",
               script, data, script, path);
    return 0;
}
