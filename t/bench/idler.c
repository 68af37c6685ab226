/* SPDX-License-Identifier: MIT */
/*
 * idler: a peer for t/bench/compare.t, under the harness of bench/bench.h, that has no network: every rank knows what the
 * harness's check wants to see and writes it down.
 *
 *   IDLER_SLEEPS=BYTES   hangs at this size      IDLER_LIES=BYTES    has one element wrong on rank 1 at this size
 *   IDLER_EATS=MIB       keeps so much memory    IDLER_QUITS=BYTES   gives up on rank 1 at this size
 */
#include "bench/bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static size_t
asked(const char *name)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : 0;
}

static void
allreduce(void *context, float *data, size_t count)
{
    const int *rank = context;
    int size = bench_number("BENCH_RANKS");
    size_t bytes = count * sizeof(*data);
    while (bytes == asked("IDLER_SLEEPS"))
        pause();
    if (bytes == asked("IDLER_QUITS") && *rank == 1) {
        errno = 0;
        bench_die("has had enough");
    }
    for (size_t i = 0; i < count; i++)
        data[i] = (float)(size * (size + 1) / 2) * (float)(1 + i % 13);
    if (bytes == asked("IDLER_LIES") && *rank == 1)
        data[count / 2] += 1;
}

int
main(void)
{
    int rank = bench_number("BENCH_RANK");
    bench_peer peer = {.context = &rank, .run = allreduce};
    size_t eaten = asked("IDLER_EATS") << 20;
    char *food = malloc(eaten + 1);
    if (!food)
        bench_die("no memory");
    memset(food, 1, eaten + 1);
    bench_join(rank, bench_number("BENCH_RANKS"));
    int bad = bench_run(&peer);
    bench_barrier();
    bad |= food[eaten] != 1;
    free(food);
    return bad;
}
