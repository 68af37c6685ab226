/* SPDX-License-Identifier: MIT */
/*
 * plot: gnuplot's data and script, and gnuplot itself. Without gnuplot its script and data are left behind, and one line
 * says so. What gnuplot prints goes to a file: it warns of harmless things. Everything is placed by screen coordinates,
 * because gnuplot's own layout gives the panel with the legend less room than the other. A curve of the former run has
 * the colour of today's, dashed.
 */
#include "perf/plot.h"

#include "hoop.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- curves --- */

/*
 * The rows of one curve: one collective, type, operation and root over its sizes. Sizes of 0 bytes have no place on a
 * logarithmic axis and are left out.
 */
typedef struct perf_series {
    const perf_row *row; /* its first */
    size_t count;
    int number; /* from 0 */
} perf_series;

/* What is drawn of one place at one size. Without an interval low and high are the value; NAN: nothing to draw. */
typedef struct perf_figures {
    double time, low, high; /* microseconds */
    double busbw, bus_low, bus_high;
} perf_figures;

/*
 * The columns of the data file: the size, then for each curve (out of place and in place, now and then) the six
 * figures.
 */
enum { CURVES = 4, FIGURES = 6 };

static int
next_series(const perf_rows *rows, perf_series *series)
{
    size_t at = series->row ? (size_t)(series->row - rows->row) + series->count : 0;
    int number = series->row ? series->number + 1 : 0;
    while (at < rows->count) {
        size_t first = at;
        while (at < rows->count && perf_same_series(&rows->row[first], &rows->row[at]))
            at++;
        if (rows->row[at - 1].bytes > 0) { /* sizes only grow */
            *series = (perf_series){&rows->row[first], at - first, number};
            return 1;
        }
    }
    return 0;
}

static perf_figures
figures_of(const perf_side *side, int median)
{
    perf_figures none = {NAN, NAN, NAN, NAN, NAN, NAN};
    if (!side || side->time <= 0)
        return none;
    const perf_stats *s = &side->stats;
    int has_median = median && s->median > 0;
    double time = has_median ? s->median : side->time, low = time, high = time, work = side->busbw * side->time;
    if (has_median && perf_stats_has_interval(s) && s->low > 0) {
        low = s->low;
        high = s->high;
    }
    return (perf_figures){time * 1e6, low * 1e6, high * 1e6, work / time, work / high, work / low};
}

/* --- the script --- */

enum { WIDTH = 1400, HEAD = 50, SINGLE = 500, SEVERAL = 340, LEGEND_LINE = 18, HOSTS = 3 };

typedef struct sheet {
    FILE *f;
    const perf_report *report;
    const perf_past *past;
    double height; /* pixels of the whole picture */
    double top;    /* where the row of panels begins, counted from above */
} sheet;

/* In gnuplot's single quotes, in which a quote is doubled. */
static void
quoted(FILE *f, const char *text)
{
    fputc('\'', f);
    for (; *text != '\0'; text++)
        fputs(*text == '\'' ? "''" : (const char[]){*text, '\0'}, f);
    fputc('\'', f);
}

/* A gnuplot without cairo draws PNG too, but without dashes. */
static void
terminal(FILE *f, const char *picture, double height)
{
    if (strcmp(picture + strlen(picture) - 4, ".png") == 0)
        fprintf(f,
                "if (strstrt(GPVAL_TERMINALS, 'pngcairo')) { set terminal pngcairo size %d,%.0f }"
                " else { set terminal png size %d,%.0f }\n",
                WIDTH, height, WIDTH, height);
    else
        fprintf(f, "set terminal svg size %d,%.0f dynamic background 'white'\n", WIDTH, height);
}

/* --- what the rows have in common --- */

/* "node1, node2, node3 and 5 others": hosts in the order of their first ranks. */
static void
hosts(FILE *f, const perf_report *report)
{
    int count = 0;
    for (int i = 0; i < report->ranks; i++) {
        int known = 0;
        for (int j = 0; j < i && !known; j++)
            known = strcmp(report->members[i].host, report->members[j].host) == 0;
        if (!known && count++ < HOSTS)
            fprintf(f, "%s%s", count > 1 ? ", " : "", report->members[i].host);
    }
    if (count > HOSTS)
        fprintf(f, " and %d other%s", count - HOSTS, count == HOSTS + 1 ? "" : "s");
}

static void
title(const sheet *s)
{
    FILE *f = s->f;
    fprintf(f, "set multiplot title 'hoop-bench %s: %d rank%s on ", hoop_version(), s->report->ranks,
            s->report->ranks == 1 ? "" : "s");
    hosts(f, s->report);
    fprintf(f, ", %s'", s->report->started);
    if (s->past->rows.count > 0) {
        fprintf(f, ".'; dashed: '.");
        quoted(f, s->past->path);
    }
    fprintf(f, " noenhanced\n");
}

/* Ticks at powers of 2, seven at most, and a margin on both sides, which a single size needs. */
static void
size_axis(const sheet *s)
{
    const perf_rows *rows = &s->report->rows;
    size_t least = SIZE_MAX, most = 1; /* there is a size above 0 */
    for (size_t i = 0; i < rows->count; i++) {
        size_t bytes = rows->row[i].bytes;
        least = bytes > 0 && bytes < least ? bytes : least;
        most = bytes > most ? bytes : most;
    }
    int from = (int)floor(log2((double)least)), to = (int)ceil(log2((double)most)), step = (to - from + 5) / 6;
    fprintf(s->f, "set logscale x 2\nset xrange [%g:%g]\nset xtics (", (double)least / 1.4, (double)most * 1.4);
    for (int power = from; power <= to; power += step > 0 ? step : 1) {
        char text[PERF_SIZE_TEXT];
        fprintf(s->f, "%s'%s' %zu", power > from ? ", " : "", perf_size_print((size_t)1 << power, text),
                (size_t)1 << power);
    }
    fprintf(s->f, ")\n");
}

/* --- one row --- */

static int
same_coll(const perf_series *a, const perf_series *b)
{
    return strcmp(a->row->coll, b->row->coll) == 0;
}

static const perf_side *
side_of(const sheet *s, const perf_row *row, int former, int place)
{
    const perf_row *from = former ? perf_past_find(s->past, row) : row;
    return from ? &from->side[place] : NULL;
}

/* The least and the most time of a collective, which its axis is made for. */
static void
time_range(const sheet *s, perf_series series, double *least, double *most)
{
    const perf_series first = series;
    *least = INFINITY;
    *most = 0;
    do
        for (size_t i = 0; i < series.count * CURVES; i++) {
            const perf_row *row = &series.row[i / CURVES];
            perf_figures figures = figures_of(side_of(s, row, (int)(i & 2), (int)(i & 1)), s->report->options->stats);
            if (row->bytes > 0 && !isnan(figures.time)) {
                *least = fmin(*least, figures.low);
                *most = fmax(*most, figures.high);
            }
        }
    while (next_series(&s->report->rows, &series) && same_coll(&first, &series));
}

static void
time_tick(FILE *f, const char *comma, double us)
{
    static const char *const units[] = {"us", "ms", "s"};
    int unit = us < 1e3 ? 0 : us < 1e6 ? 1 : 2;
    fprintf(f, "%s'%g %s' %g", comma, us / pow(1e3, unit), units[unit], us);
}

/* Decades, and the more between them the narrower the range is. */
static void
time_axis(const sheet *s, const perf_series *series)
{
    static const struct {
        double at, widest; /* a range that is wider goes without this tick */
    } ticks[] = {{1, INFINITY}, {1.5, 5}, {2, 100}, {3, 5}, {4, 5}, {5, 100}, {7, 5}};
    double least, most;
    const char *comma = "";
    time_range(s, *series, &least, &most);
    least /= 1.2;
    most *= 1.2;
    fprintf(s->f, "set logscale y\nset yrange [%g:%g]\nset ytics (", least, most);
    for (int decade = (int)floor(log10(least)); pow(10, decade) <= most; decade++)
        for (size_t i = 0; i < sizeof(ticks) / sizeof(ticks[0]); i++) {
            double us = ticks[i].at * pow(10, decade);
            if (most / least > ticks[i].widest || us < least || us > most)
                continue;
            time_tick(s->f, comma, us);
            comma = ", ";
        }
    fprintf(s->f, ")\n");
}

static void
name(FILE *f, const perf_row *row, int former, int place)
{
    fprintf(f, "title '%s", row->type);
    if (strcmp(row->op, "none") != 0)
        fprintf(f, " %s", row->op);
    if (row->root >= 0)
        fprintf(f, " root %d", row->root);
    fprintf(f, "%s%s' ", place ? ", in place" : "", former ? ", before" : "");
}

/* column: of the value; the ends of its interval are in the next two. `number` is the curve's in its panel. */
static void
curve(const sheet *s, const perf_series *series, int column, int number, int former)
{
    static const char *const colours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                          "#56B4E9", "#E69F00", "#000000", "#7F3C8D"};
    enum { COLOURS = sizeof(colours) / sizeof(colours[0]) };
    static const int points[] = {7, 6, 5, 4, 9, 8, 11, 10, 13, 12};
    int place = number % 2, shape = 2 * (number / COLOURS % 5) + place;
    const perf_side *first = side_of(s, &series->row[series->count - 1], former, place);
    int ranges = s->report->options->stats && first && perf_stats_has_interval(&first->stats);
    int at = 2 + FIGURES * (2 * former + place) + column;
    fprintf(s->f, ", \\\n    data index %d using 1:%d", series->number, at);
    if (ranges)
        fprintf(s->f, ":%d:%d with yerrorlines ", at + 1, at + 2);
    else
        fprintf(s->f, " with linespoints ");
    fprintf(s->f, "linecolor rgb '%s' pointtype %d pointsize %g linewidth 1.5 dashtype %d ", colours[number % COLOURS],
            points[shape], former ? 0.6 : 0.9, former ? 2 : 1);
    if (column == 0)
        fprintf(s->f, "notitle");
    else
        name(s->f, series->row, former, place);
}

/* All curves of a collective, whose first series is given. column: 0 the times, 3 the bandwidths. */
static void
curves(const sheet *s, perf_series series, int column)
{
    const perf_series first = series;
    int number = 0;
    fprintf(s->f, "plot NaN notitle");
    do
        for (int place = 0; place < 2; place++, number++) {
            curve(s, &series, column, number, 0);
            if (s->past->rows.count > 0)
                curve(s, &series, column, number, 1);
        }
    while (next_series(&s->report->rows, &series) && same_coll(&first, &series));
    if (column > 0 && s->report->link_rate > 0)
        fprintf(s->f, ", %g with lines linecolor rgb '#808080' dashtype 3 title 'the line'",
                s->report->link_rate / 8e9);
    fprintf(s->f, "\n");
}

/* The pixels that a collective's row takes: the legend must fit beside it. */
static double
row_height(const sheet *s, perf_series series, int single)
{
    const perf_series first = series;
    int lines = 1, least = single ? SINGLE : SEVERAL;
    do
        lines += s->past->rows.count > 0 ? 4 : 2;
    while (next_series(&s->report->rows, &series) && same_coll(&first, &series));
    return fmax(least, lines * LEGEND_LINE + 100);
}

static void
row(sheet *s, const perf_series *series, double height)
{
    FILE *f = s->f;
    double top = 1 - (s->top + 30) / s->height, bottom = 1 - (s->top + height - 40) / s->height;
    fprintf(f, "set tmargin at screen %.4f\nset bmargin at screen %.4f\n", top, bottom);
    fprintf(f, "set lmargin at screen 0.065\nset rmargin at screen 0.385\nunset key\n");
    fprintf(f, "set title '%s: %s' noenhanced\n", series->row->coll,
            s->report->options->stats ? "median time and its 95 % interval" : "time");
    time_axis(s, series);
    curves(s, *series, 0);
    fprintf(f, "set lmargin at screen 0.435\nset rmargin at screen 0.755\n");
    fprintf(f, "set key at screen 0.765,%.4f left top Left reverse noenhanced samplen 3\n", top);
    fprintf(f, "set title '%s: bus bandwidth, GB/s' noenhanced\n", series->row->coll);
    fprintf(f, "unset logscale y\nset yrange [0:*]\nset ytics auto\n");
    curves(s, *series, FIGURES / 2);
    s->top += height;
}

/* Each collective's first series. */
static int
next_coll(const sheet *s, perf_series *series)
{
    const perf_series last = *series;
    while (next_series(&s->report->rows, series))
        if (!last.row || !same_coll(&last, series))
            return 1;
    return 0;
}

static void
script_write(FILE *script, const char *picture, const char *data, const perf_report *report, const perf_past *past)
{
    sheet s = {.f = script, .report = report, .past = past, .height = HEAD, .top = HEAD};
    perf_series series = {0};
    int colls = 0;
    while (next_coll(&s, &series))
        colls++;
    for (series = (perf_series){0}; next_coll(&s, &series);)
        s.height += row_height(&s, series, colls == 1);
    terminal(script, picture, s.height);
    fprintf(script, "set output ");
    quoted(script, picture);
    fprintf(script, "\ndata = ");
    quoted(script, data);
    fprintf(script, "\nset grid\n");
    title(&s);
    size_axis(&s);
    for (series = (perf_series){0}; next_coll(&s, &series);)
        row(&s, &series, row_height(&s, series, colls == 1));
    fprintf(script, "unset multiplot\n");
}

/* --- the files, and gnuplot --- */

enum { NOT_FOUND = 127 };

typedef struct plot_files {
    char data[PATH_MAX], script[PATH_MAX], log[PATH_MAX]; /* beside the picture */
} plot_files;

static void
write_run(FILE *f, const perf_row *row, int median)
{
    for (int place = 0; place < 2; place++) {
        perf_figures p = figures_of(row ? &row->side[place] : NULL, median);
        fprintf(f, " %.3f %.3f %.3f %.6f %.6f %.6f", p.time, p.low, p.high, p.busbw, p.bus_low, p.bus_high);
    }
}

/* gnuplot's data: two blank lines end a set of data. One set for each series. */
static int
write_data(const char *path, const perf_report *report, const perf_past *past)
{
    FILE *f = perf_file_open(path);
    perf_series series = {0};
    if (!f)
        return -1;
    fprintf(f, "# size_B, then time_us low high busbw low high out of place and in place, then the same of before\n");
    while (next_series(&report->rows, &series)) {
        if (series.number > 0)
            fprintf(f, "\n\n");
        for (const perf_row *row = series.row; row < series.row + series.count; row++)
            if (row->bytes > 0) {
                fprintf(f, "%zu", row->bytes);
                write_run(f, row, report->options->stats);
                write_run(f, perf_past_find(past, row), report->options->stats);
                fprintf(f, "\n");
            }
    }
    return perf_file_close(f, path);
}

static int
write_script(const plot_files *to, const char *picture, const perf_report *report, const perf_past *past)
{
    FILE *f = perf_file_open(to->script);
    if (!f)
        return -1;
    script_write(f, picture, to->data, report, past);
    return perf_file_close(f, to->script);
}

/* gnuplot's exit status; NOT_FOUND when it could not be run. */
static int
run_gnuplot(const plot_files *with)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        int log = open(with->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        dup2(log, STDOUT_FILENO);
        dup2(log, STDERR_FILENO);
        execlp("gnuplot", "gnuplot", with->script, (char *)NULL);
        _exit(NOT_FOUND);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return NOT_FOUND;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void
print_outcome(const plot_files *with, const char *picture, int status)
{
    if (status == 0) {
        unlink(with->data);
        unlink(with->script);
        printf("# Plot: %s\n", picture);
    } else
        printf("# Plot: gnuplot %s; its script and data are %s and %s: gnuplot %s draws %s\n",
               status == NOT_FOUND ? "could not be run here" : "was not content", with->script, with->data,
               with->script, picture);
    if (status == 0 || status == NOT_FOUND)
        unlink(with->log);
    else
        printf("# Plot: %s has gnuplot's own words\n", with->log);
}

int
perf_plot_write(const char *path, const perf_report *report, const perf_past *past)
{
    perf_series any = {0};
    plot_files to;
    snprintf(to.data, sizeof(to.data), "%s.dat", path);
    snprintf(to.script, sizeof(to.script), "%s.gp", path);
    snprintf(to.log, sizeof(to.log), "%s.log", path);
    if (!next_series(&report->rows, &any)) {
        printf("# Plot: there is nothing to draw, because no size is above 0 bytes\n");
        return 0;
    }
    if (write_data(to.data, report, past) != 0 || write_script(&to, path, report, past) != 0)
        return -1;
    fflush(stdout);
    print_outcome(&to, path, run_gnuplot(&to));
    return 0;
}
