/* SPDX-License-Identifier: MIT */
/* lateness: see lateness.h. */
#include "rendezvous/lateness.h"

#include <stdlib.h>

uint64_t
hp_clock_offset_error(const hp_clock_offset *c, uint64_t now)
{
    if (c->at == 0)
        return HP_CLOCK_UNKNOWN;
    return c->error + (now > c->at ? (now - c->at) / HP_CLOCK_DRIFT : 0);
}

void
hp_clock_offset_take(hp_clock_offset *c, uint64_t asked, uint64_t server, uint64_t now)
{
    uint64_t half = (now - asked) / 2;
    uint64_t error =
        half + 1 + (now - asked) / HP_CLOCK_DRIFT; /* half may be rounded down, and clocks drift meanwhile */
    if (asked > now || error > hp_clock_offset_error(c, now))
        return;
    *c = (hp_clock_offset){.at = now, .offset = (int64_t)(asked + half - server), .error = error};
}

static int
by_count(const void *one, const void *other)
{
    const uint64_t *a = one, *b = other;
    return (*a > *b) - (*a < *b);
}

/* The count that most ranks have, the lowest of several; 0: none has any. `counts` has room for one of each rank. */
static uint64_t
common_count(const hp_entry_times *of, int ranks, uint64_t *counts)
{
    uint64_t common = 0;
    int n = 0, most = 0;
    for (int r = 0; r < ranks; r++)
        if (of[r].count > 0)
            counts[n++] = of[r].count;
    qsort(counts, (size_t)n, sizeof(*counts), by_count);
    for (int i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && counts[end] == counts[i];)
            end++;
        if (end - i <= most)
            continue;
        most = end - i;
        common = counts[i];
    }
    return common;
}

/* Sums are modulo 2^64: the difference of two is small, and right. */
static int
is_earlier(const hp_entry_times *a, const hp_entry_times *b)
{
    return (int64_t)(a->sum - b->sum) < 0;
}

/* The most by which the difference of the two sums may be wrong. */
static uint64_t
error_of(const hp_entry_times *a, const hp_entry_times *b)
{
    return a->error > UINT64_MAX - b->error ? UINT64_MAX : a->error + b->error;
}

void
hp_lateness(const hp_entry_times *of, int ranks, uint64_t *late)
{
    uint64_t count = common_count(of, ranks, late);
    const hp_entry_times *earliest = 0;
    for (int r = 0; r < ranks; r++)
        if (count && of[r].count == count && (!earliest || is_earlier(&of[r], earliest)))
            earliest = &of[r];
    for (int r = 0; r < ranks; r++) {
        late[r] = HP_LATENESS_UNKNOWN;
        if (!count || of[r].count != count)
            continue;
        uint64_t ns = of[r].sum - earliest->sum;
        late[r] = ns > error_of(&of[r], earliest) ? ns / count : 0;
    }
}
