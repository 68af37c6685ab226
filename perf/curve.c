/* SPDX-License-Identifier: MIT */
/* curve: the first series of rows as a picture of characters: bus bandwidth upwards, size to the right. */
#include "perf/report.h"

#include <string.h>

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
line(const perf_row *row, size_t count, size_t step, double top, int height)
{
    if (height % 3 == 0)
        printf("# %8.3g |", top * height / (HEIGHT - 1));
    else
        printf("# %8s |", "");
    for (size_t i = 0; i < count; i++) {
        int out = level(row[i].side[0].busbw, top) == height, in = level(row[i].side[1].busbw, top) == height;
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
axis(const perf_row *row, size_t count, size_t step)
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
        line(row, count, step, top, height);
    axis(row, count, step);
}
