/* SPDX-License-Identifier: MIT */
/*
 * bench_plot: the results as a picture drawn by gnuplot: time over size, bus bandwidth over size, a curve for each
 * collective, type and operation, and beside it that of the former run. Where there is no gnuplot, its script and data
 * are left behind, and one line says so.
 */
#include "bin/bench_report.h"

#include <limits.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A column of the data for each quantity, out of place and in place, now and then. */
enum { SIZE = 1, TIME, BUSBW = TIME + 2, THEN = 4 };

enum { NOT_FOUND = 127 };

static void
write_figures(FILE *f, const bench_row *row)
{
    if (row == NULL)
        fprintf(f, " NaN NaN NaN NaN");
    else
        fprintf(f, " %.3f %.3f %.6f %.6f", row->side[0].time * 1e6, row->side[1].time * 1e6, row->side[0].busbw,
                row->side[1].busbw);
}

/* gnuplot's data: two blank lines end a data set. One set for each collective, type, operation and root. */
static int
write_data(const char *path, const bench_report *report, const bench_past *past)
{
    FILE *f = bench_file_open(path);
    if (f == NULL)
        return -1;
    fprintf(f, "# size_B time_out_us time_in_us busbw_out busbw_in, then the same four of the former run\n");
    for (size_t i = 0; i < report->rows.count; i++) {
        const bench_row *row = &report->rows.row[i];
        if (i > 0 && !bench_same_series(row, row - 1))
            fprintf(f, "\n\n");
        fprintf(f, "%zu", row->bytes);
        write_figures(f, row);
        write_figures(f, bench_past_find(past, row));
        fprintf(f, "\n");
    }
    return bench_file_close(f, path);
}

/* In gnuplot's single quotes, in which a quote is doubled. */
static void
write_quoted(FILE *f, const char *text)
{
    fputc('\'', f);
    for (; *text != '\0'; text++)
        fputs(*text == '\'' ? "''" : (const char[]){*text, '\0'}, f);
    fputc('\'', f);
}

static void
write_title(FILE *f, const bench_row *row, const char *place, int former)
{
    fprintf(f, " title '%s %s %s", row->coll, row->type, row->op);
    if (row->root >= 0)
        fprintf(f, " root %d", row->root);
    fprintf(f, "%s%s'", place, former ? ", before" : "");
}

/* The two curves of one set, out of place and in place; of now, or dashed of the former run. The left panel names them. */
static void
write_pair(FILE *f, const bench_row *row, int set, int column, int former)
{
    static const char *const places[] = {"", " in place"};
    for (int place = 0; place < 2; place++) {
        fprintf(f, ", data index %d using %d:%d with linespoints%s", set, SIZE, column + (former ? THEN : 0) + place,
                former ? " dashtype 2" : "");
        if (column == TIME)
            write_title(f, row, places[place], former);
        else
            fprintf(f, " notitle");
    }
}

static void
write_curves(FILE *f, const bench_report *report, const bench_past *past, int column)
{
    int set = 0;
    fprintf(f, "plot NaN notitle");
    for (size_t i = 0; i < report->rows.count; i++) {
        const bench_row *row = &report->rows.row[i];
        if (i > 0 && bench_same_series(row, row - 1))
            continue;
        write_pair(f, row, set, column, 0);
        if (past->rows.count > 0)
            write_pair(f, row, set, column, 1);
        set++;
    }
    if (column == BUSBW && report->line > 0)
        fprintf(f, ", %g with lines dashtype 3 title 'the line'", report->line / 8e9);
    fprintf(f, "\n");
}

/* Without cairo gnuplot's PNG has no dashes, but it has one. */
static void
write_terminal(FILE *f, const char *picture)
{
    if (strcmp(picture + strlen(picture) - 4, ".png") == 0)
        fprintf(f, "if (strstrt(GPVAL_TERMINALS, 'pngcairo')) { set terminal pngcairo size 1280,560 }"
                   " else { set terminal png size 1280,560 }\n");
    else
        fprintf(f, "set terminal svg size 1280,560 dynamic background 'white'\n");
}

static int
write_script(const char *path, const char *picture, const char *data, const bench_report *report,
             const bench_past *past)
{
    FILE *f = bench_file_open(path);
    if (f == NULL)
        return -1;
    write_terminal(f, picture);
    fprintf(f, "set output ");
    write_quoted(f, picture);
    fprintf(f, "\ndata = ");
    write_quoted(f, data);
    fprintf(f, "\nset multiplot layout 1,2 title 'hoop-bench, %d ranks'\n", report->ranks);
    fprintf(f, "set logscale x 2\nset format x '%%.0b%%B'\nset xlabel 'size, bytes'\nset grid\n");
    fprintf(f, "set key left top noenhanced\nset logscale y\nset ylabel 'time, us'\n");
    write_curves(f, report, past, TIME);
    fprintf(f, "unset logscale y\nset yrange [0:*]\nset ylabel 'bus bandwidth, GB/s'\n");
    write_curves(f, report, past, BUSBW);
    fprintf(f, "unset multiplot\n");
    return bench_file_close(f, path);
}

/* gnuplot's exit status; NOT_FOUND when it could not be run. */
static int
run_gnuplot(const char *script)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execlp("gnuplot", "gnuplot", script, (char *)NULL);
        _exit(NOT_FOUND);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return NOT_FOUND;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int
bench_plot_write(const char *path, const bench_report *report, const bench_past *past)
{
    char data[PATH_MAX], script[PATH_MAX];
    snprintf(data, sizeof(data), "%s.dat", path);
    snprintf(script, sizeof(script), "%s.gp", path);
    if (write_data(data, report, past) != 0 || write_script(script, path, data, report, past) != 0)
        return -1;
    fflush(stdout);
    int status = run_gnuplot(script);
    if (status == 0) {
        unlink(data);
        unlink(script);
        printf("# Plot: %s\n", path);
    } else
        printf("# Plot: gnuplot %s; its script and data are %s and %s: gnuplot %s draws %s\n",
               status == NOT_FOUND ? "could not be run here" : "was not content", script, data, script, path);
    return 0;
}
