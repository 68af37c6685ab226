/* SPDX-License-Identifier: MIT */
/*
 * plot: the results as a picture drawn by gnuplot, with those of the former run. Where there is no gnuplot, its
 * script and data are left behind, and one line says so. What gnuplot says goes to a file: it warns of harmless things.
 */
#include "perf/report.h"
#include "perf/script.h"
#include "perf/series.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOT_FOUND = 127 };

typedef struct files {
    char data[PATH_MAX], script[PATH_MAX], words[PATH_MAX]; /* beside the picture */
} files;

static void
write_run(FILE *f, const perf_row *row, int median)
{
    for (int place = 0; place < 2; place++) {
        perf_figures p = perf_figures_of(!row ? NULL : &row->side[place], median);
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
    while (perf_series_next(&report->rows, &series)) {
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
write_script(const files *to, const char *picture, const perf_report *report, const perf_past *past)
{
    FILE *f = perf_file_open(to->script);
    if (!f)
        return -1;
    perf_script_write(f, picture, to->data, report, past);
    return perf_file_close(f, to->script);
}

/* gnuplot's exit status; NOT_FOUND when it could not be run. */
static int
run_gnuplot(const files *with)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        int words = open(with->words, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        dup2(words, STDOUT_FILENO);
        dup2(words, STDERR_FILENO);
        execlp("gnuplot", "gnuplot", with->script, (char *)NULL);
        _exit(NOT_FOUND);
    }
    if (child < 0 || waitpid(child, &status, 0) != child)
        return NOT_FOUND;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void
tell(const files *with, const char *picture, int status)
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
        unlink(with->words);
    else
        printf("# Plot: %s has gnuplot's own words\n", with->words);
}

int
perf_plot_write(const char *path, const perf_report *report, const perf_past *past)
{
    perf_series any = {0};
    files to;
    snprintf(to.data, sizeof(to.data), "%s.dat", path);
    snprintf(to.script, sizeof(to.script), "%s.gp", path);
    snprintf(to.words, sizeof(to.words), "%s.log", path);
    if (!perf_series_next(&report->rows, &any)) {
        printf("# Plot: there is nothing to draw, because no size is above 0 bytes\n");
        return 0;
    }
    if (write_data(to.data, report, past) != 0 || write_script(&to, path, report, past) != 0)
        return -1;
    fflush(stdout);
    tell(&to, path, run_gnuplot(&to));
    return 0;
}
