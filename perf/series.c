/* SPDX-License-Identifier: MIT */
/* series: pure functions over rows. */
#include "perf/series.h"

#include "perf/report.h"

#include <math.h>

int
perf_series_next(const perf_rows *rows, perf_series *series)
{
    size_t at = !series->row ? 0 : (size_t)(series->row - rows->row) + series->count;
    int number = !series->row ? 0 : series->number + 1;
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

perf_figures
perf_figures_of(const perf_side *side, int median)
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
