/* SPDX-License-Identifier: MIT */
/*
 * Lateness by a reference that keeps every time of every rank: random times, clocks that are days apart, and errors. The
 * known lateness is found to the ns; what a clock's error explains is 0; ranks that cannot be compared are unknown.
 */
#include "rendezvous/lateness.h"

#include "t/tap/tap.h"

enum { RANKS = 7, ROUNDS = 300, MOST_COUNT = 5000, MANY = 65536 };

/* Rank r calls `late[r]` ns later each time, by a clock that is `offset` ahead; sums are made term by term. */
static void
call(hp_entry_times *of, const uint64_t *late, uint64_t count)
{
    for (int r = 0; r < RANKS; r++)
        of[r].count = of[r].sum = 0;
    uint64_t time = UINT64_C(1) << 50;
    for (uint64_t i = 0; i < count; i++) {
        time += tap_random() % 1000000000;
        for (int r = 0; r < RANKS; r++) {
            of[r].sum += time + late[r] + (uint64_t)of[r].offset;
            of[r].count++;
        }
    }
}

static int
one_round(int round)
{
    hp_entry_times of[RANKS];
    uint64_t late[RANKS], found[RANKS];
    int good = 1, early = (int)(tap_random() % RANKS);
    for (int r = 0; r < RANKS; r++) {
        late[r] = r == early ? 0 : 1 + tap_random() % 2000000;
        of[r].offset = (int64_t)(tap_random() % (UINT64_C(1) << 51)) - (INT64_C(1) << 50);
        of[r].error = tap_random() % 1000000;
    }
    call(of, late, 1 + tap_random() % MOST_COUNT);
    hp_lateness(of, RANKS, found);
    for (int r = 0; r < RANKS; r++) {
        uint64_t wanted = late[r] > of[r].error + of[early].error ? late[r] : 0;
        good &= case_ok(found[r] == wanted, "round %d: rank %d", round, r);
    }
    return good;
}

static void
who_is_compared(void)
{
    hp_entry_times of[] = {{4, 4000, 0, 0}, {4, 4400, 0, 0}, {3, 900, 0, 0}, {4, 9000, 0, UINT64_MAX}, {0, 0, 0, 0}};
    uint64_t late[5];
    hp_lateness(of, 5, late);
    ok(late[0] == 0 && late[1] == 100, "the ranks of the count that most have");
    ok(late[2] == HP_LATENESS_UNKNOWN, "... and not one of another count");
    ok(late[3] == HP_LATENESS_UNKNOWN, "... or with an unknown clock");
    ok(late[4] == HP_LATENESS_UNKNOWN, "... or without a time");
    of[0].count = 0;
    hp_lateness(of, 3, late);
    ok(late[2] == 0 && late[1] == HP_LATENESS_UNKNOWN, "of two counts the lower one");
    of[1].count = of[2].count = 0;
    hp_lateness(of, 3, late);
    ok(late[0] == HP_LATENESS_UNKNOWN && late[1] == HP_LATENESS_UNKNOWN, "before the first time all are unknown");
    of[1] = (hp_entry_times){2, 2000 + 2 * 30, 0, 10};
    of[2] = (hp_entry_times){2, 2000, 0, 20};
    hp_lateness(of, 3, late);
    ok(late[1] == 0, "as late as the errors are large");
    of[1].sum += 2;
    hp_lateness(of, 3, late);
    ok(late[1] == 31, "... and later than that");
}

/* All have other counts but two, so every rank's has to be looked for. */
static void
how_many_are_compared(void)
{
    static hp_entry_times of[MANY];
    static uint64_t late[MANY];
    int known = 0;
    for (int r = 0; r < MANY; r++)
        of[r].count = 1 + (uint64_t)r * 40503 % MANY;
    of[5].count = of[7].count;
    of[5].sum = of[7].sum + 9 * of[5].count;
    for (int i = 0; i < 20; i++)
        hp_lateness(of, MANY, late);
    for (int r = 0; r < MANY; r++)
        known += late[r] != HP_LATENESS_UNKNOWN;
    ok(known == 2 && late[7] == 0 && late[5] == 9, "of %d ranks the two that have the same count", (int)MANY);
}

int
main(void)
{
    int good = 0;
    plan(10);
    tap_limit(60);
    who_is_compared();
    how_many_are_compared();
    for (int round = 0; round < ROUNDS; round++)
        good += one_round(round);
    is_int(ROUNDS, good, "random ranks, clocks and errors");
    return 0;
}
