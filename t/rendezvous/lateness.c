/* SPDX-License-Identifier: MIT */
/*
 * Lateness by a reference that keeps every time of every rank: random times and errors. The known lateness is found to
 * the ns; what the errors explain is 0; ranks that cannot be compared are unknown.
 */
#include "rendezvous/lateness.h"

#include "t/tap/tap.h"

enum { RANKS = 7, ROUNDS = 300, MOST_COUNT = 5000, MANY = 65536 };

/* Rank r calls `late[r]` ns later each time; sums are made term by term. */
static void
call(hp_entry_times *of, const uint64_t *late, uint64_t count)
{
    for (int r = 0; r < RANKS; r++)
        of[r].count = of[r].sum = 0;
    uint64_t time = UINT64_C(1) << 50; /* the sums pass 2^64 */
    for (uint64_t i = 0; i < count; i++) {
        time += tap_random() % 1000000000;
        for (int r = 0; r < RANKS; r++) {
            of[r].sum += time + late[r];
            of[r].count++;
        }
    }
}

static int
one_round(int round)
{
    hp_entry_times of[RANKS];
    uint64_t late[RANKS], found[RANKS];
    uint64_t count = 1 + tap_random() % MOST_COUNT;
    int good = 1, early = (int)(tap_random() % RANKS);
    for (int r = 0; r < RANKS; r++) {
        late[r] = r == early ? 0 : 1 + tap_random() % 2000000;
        of[r].error = tap_random() % 1000000 * count;
    }
    call(of, late, count);
    hp_lateness(of, RANKS, found);
    for (int r = 0; r < RANKS; r++) {
        uint64_t wanted = late[r] * count > of[r].error + of[early].error ? late[r] : 0;
        good &= case_ok(found[r] == wanted, "round %d: rank %d", round, r);
    }
    return good;
}

static void
who_is_compared(void)
{
    hp_entry_times of[] = {{4, 4000, 0}, {4, 4400, 0}, {3, 900, 0}, {4, 9000, UINT64_MAX}, {0, 0, 0}};
    uint64_t late[5];
    hp_lateness(of, 5, late);
    ok(late[0] == 0 && late[1] == 100, "the ranks of the count that most have");
    ok(late[2] == HP_LATENESS_UNKNOWN, "... and not one of another count");
    ok(late[3] == 0, "a clock of which nothing is known shows no lateness");
    ok(late[4] == HP_LATENESS_UNKNOWN, "a rank without a time is not compared");
    of[0].count = 0;
    hp_lateness(of, 3, late);
    ok(late[2] == 0 && late[1] == HP_LATENESS_UNKNOWN, "of two counts the lower one");
    of[1].count = of[2].count = 0;
    hp_lateness(of, 3, late);
    ok(late[0] == HP_LATENESS_UNKNOWN && late[1] == HP_LATENESS_UNKNOWN, "before the first time all are unknown");
    of[1] = (hp_entry_times){2, 2000 + 2 * 30, 2 * 10};
    of[2] = (hp_entry_times){2, 2000, 2 * 20};
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
    tap_limit(240);
    who_is_compared();
    how_many_are_compared();
    for (int round = 0; round < ROUNDS; round++)
        good += one_round(round);
    is_int(ROUNDS, good, "random ranks, times and errors");
    return 0;
}
