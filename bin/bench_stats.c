/* SPDX-License-Identifier: MIT */
/* bench_stats: pure functions. Each sample is below the median with probability 1/2: the rest is the binomial. */
#include "bin/bench_stats.h"

#include <math.h>
#include <stdlib.h>

static int
ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

size_t
bench_stats_rank(size_t count)
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

bench_stats
bench_stats_of(double *samples, size_t count)
{
    qsort(samples, count, sizeof(*samples), ascending);
    size_t rank = bench_stats_rank(count);
    bench_stats s = {.min = samples[0], .max = samples[count - 1], .low = 1, .high = 0};
    s.median = (samples[(count - 1) / 2] + samples[count / 2]) / 2;
    if (rank > 0) {
        s.low = samples[rank - 1];
        s.high = samples[count - rank];
    }
    return s;
}

int
bench_stats_has_interval(const bench_stats *stats)
{
    return stats->low <= stats->high;
}

static int
is_outside(double value, const bench_stats *stats)
{
    return value < stats->low || value > stats->high;
}

int
bench_stats_apart(const bench_stats *a, const bench_stats *b)
{
    return bench_stats_has_interval(a) && bench_stats_has_interval(b) && is_outside(a->median, b) &&
           is_outside(b->median, a);
}
