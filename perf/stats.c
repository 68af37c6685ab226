/* SPDX-License-Identifier: MIT */
/* stats: pure functions. Each sample is below the median with probability 1/2: the rest is the binomial. */
#include "perf/stats.h"

#include <math.h>
#include <stdlib.h>

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
