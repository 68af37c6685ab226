/* SPDX-License-Identifier: MIT */
/* The benchmark's statistics against published tables of the median's confidence interval, and by simulation. */
#include "perf/report.h"

#include "t/tap/tap.h"

#include <math.h>

/* k of the 95 % interval (x(k), x(n+1-k)) for the median, as tables of non-parametric statistics give it. */
static void
tables(void)
{
    static const struct {
        size_t count, rank;
    } known[] = {{1, 0},  {5, 0},  {6, 1},  {8, 1},   {9, 2},   {10, 2},  {12, 3},  {15, 4},
                 {17, 5}, {20, 6}, {25, 8}, {30, 10}, {40, 14}, {50, 18}, {100, 40}};
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        is_uint(known[i].rank, perf_stats_rank(known[i].count), "rank for %zu samples", known[i].count);
}

static void
one_set(void)
{
    double samples[] = {7, 1, 5, 3, 9, 2, 8, 4, 6, 10};
    perf_stats s = perf_stats_of(samples, 10);
    ok(s.median == 5.5 && s.min == 1 && s.max == 10 && s.p99 == 10, "median, least and most of ten");
    ok(perf_stats_has_interval(&s), "... with an interval");
    ok(s.low == 2 && s.high == 9, "the second and the ninth enclose the median");
    double few[] = {3, 1, 2};
    s = perf_stats_of(few, 3);
    ok(s.median == 2 && !perf_stats_has_interval(&s), "three samples have a median, but no interval");
}

/* So many samples are 1, 2, 3 ... */
static void
test_p99(size_t count, double wanted)
{
    double samples[1000];
    for (size_t i = 0; i < count; i++)
        samples[i] = (double)(count - i);
    double got = perf_stats_of(samples, count).p99;
    ok(got == wanted, "99 %% of %zu samples are %g or less: %g", count, wanted, got);
}

/* Skewed samples with a known median: the interval must cover it in 95 % of all cases or more. */
static void
coverage(size_t count)
{
    enum { TRIALS = 4000 };
    double samples[64];
    int covered = 0;
    for (int trial = 0; trial < TRIALS; trial++) {
        for (size_t i = 0; i < count; i++)
            samples[i] = -log(1 - (double)(tap_random() >> 11) / 9007199254740992.0);
        perf_stats s = perf_stats_of(samples, count);
        covered += s.low <= log(2) && log(2) <= s.high;
    }
    double share = (double)covered / TRIALS;
    diag("%zu samples: covered in %.1f %%", count, 100 * share);
    ok(share > 0.935, "the interval from %zu samples covers the true median often enough", count);
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    tables();
    one_set();
    test_p99(1, 1);
    test_p99(99, 99);
    test_p99(100, 99);
    test_p99(101, 100);
    test_p99(1000, 990);
    coverage(6);
    coverage(20);
    coverage(50);
    return 0;
}
