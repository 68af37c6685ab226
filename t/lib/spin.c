/* SPDX-License-Identifier: MIT */
/* How often a driver looks again before it sleeps: never more than it may, fewer while sleeps are long, soon many again. */
#include "lib/spin.h"

#include "t/tap/tap.h"

enum { ROUNDS = 100000, LONG_NS = 1000000, SHORT_NS = 1000 };

static void
test_bounds(void)
{
    static const int64_t mosts[] = {0, 1, 2, 3, 50, 1000000};
    int wrong = 0;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t most = mosts[tap_random() % 6], spins = most ? (int64_t)(tap_random() % (uint64_t)(most + 1)) : 0;
        int64_t found = hp_spin_found(spins, most), less = hp_spin_slept(spins, most, LONG_NS + tap_random() % LONG_NS);
        wrong += !case_ok(found <= most && found >= spins && (found > spins || spins == most),
                          "%jd looks of %jd, and a find: then %jd", (intmax_t)spins, (intmax_t)most, (intmax_t)found);
        wrong +=
            !case_ok(less >= 0 && less <= spins && (less < spins || spins == 0),
                     "%jd looks of %jd, and a long sleep: then %jd", (intmax_t)spins, (intmax_t)most, (intmax_t)less);
        wrong += !case_int(found, hp_spin_slept(spins, most, tap_random() % HP_SPIN_SHORT_NS),
                           "%jd looks of %jd, and a short sleep", (intmax_t)spins, (intmax_t)most);
    }
    is_int(0, wrong, "more after a find or a short sleep, fewer after a long one, within 0 and the setting");
    is_int(hp_spin_found(10, 50), hp_spin_slept(10, 50, HP_SPIN_SHORT_NS - 1), "a nanosecond below 200 us is short");
    is_int(5, hp_spin_slept(10, 50, HP_SPIN_SHORT_NS), "200 us are long");
}

static void
test_most(void)
{
    is_int(7, hp_spin_most(7, 64, 1), "as many as are set");
    is_int(0, hp_spin_most(0, 1, 64), "none, if none are set");
    is_int(HP_SPIN_ALONE, hp_spin_most(-1, 2, 2), "many, with a processor for each rank");
    is_int(HP_SPIN_ALONE, hp_spin_most(-1, 4, 2), "or with two ranks on each");
    is_int(HP_SPIN_COLOCATED, hp_spin_most(-1, 5, 2), "few, with more");
}

static void
test_again(void)
{
    ok(hp_spin_again(50, 50, 0), "the last look");
    ok(!hp_spin_again(51, 50, 0), "and none after it");
    ok(!hp_spin_again(2, 1000, HP_SPIN_LONGEST_NS), "nor where the others keep the processor for long");
}

/* A ring slower than its processors: what is spent on looking vanishes next to the sleeps, and comes back at once. */
static void
test_phases(void)
{
    int64_t most = 50, spins = most, looks = 0;
    int rounds = 0;
    for (int i = 0; i < 1000; i++, looks += spins)
        spins = hp_spin_slept(spins, most, LONG_NS);
    is_int(0, spins, "a thousand long sleeps: no looks any more");
    ok(looks < 2 * most, "and %jd before that in all", (intmax_t)looks);
    for (; spins < most && rounds < 100; rounds++)
        spins = hp_spin_slept(spins, most, SHORT_NS);
    ok(rounds <= 6, "short sleeps: all %jd looks again after %d of them", (intmax_t)most, rounds);
    spins = most;
    for (int i = 0; i < 1000; i++)
        spins = i % 2 ? hp_spin_slept(spins, most, LONG_NS) : hp_spin_found(spins, most);
    ok(spins >= most / 4, "one find for each long sleep keeps it looking (%jd)", (intmax_t)spins);
    is_int(0, hp_spin_found(0, 0), "spin=0 never looks");
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    test_most();
    test_again();
    test_bounds();
    test_phases();
    return tap_failures() != 0;
}
