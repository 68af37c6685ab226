/* SPDX-License-Identifier: MIT */
/* stays: of all places in which a process waits the two longest are enough to find the longest other than one of them. */
#include "rendezvous/stays.h"

#include "rendezvous/roster.h"
#include "t/tap/tap.h"

enum { RUNS = 20000, PLACES = 6, MOST = 8 };

static const hp_roster rings[PLACES / 2];

/* The operations of some rings, and a message in each. */
static hp_wait_place
place_of(int number)
{
    return (hp_wait_place){.ring = &rings[number / 2], .rank = number % 2 ? 3 : -1};
}

/* The first of the longest in another place; -1: there is none. */
static int
search(const hp_stay *noted, int n, const hp_wait_place *except)
{
    int found = -1;
    for (int i = 0; i < n; i++)
        if (!hp_stays_same(&noted[i].place, except) && (found < 0 || noted[i].since < noted[found].since))
            found = i;
    return found;
}

static void
test_random(void)
{
    int good = 0, other = 0;
    for (int k = 0; k < RUNS; k++) {
        hp_stay noted[MOST];
        hp_stays stays = {0};
        int n = (int)tap_pick(MOST + 1);
        for (int i = 0; i < n; i++) {
            noted[i] = (hp_stay){place_of((int)tap_pick(PLACES)), tap_pick(5)};
            hp_stays_note(&stays, &noted[i].place, noted[i].since);
        }
        hp_wait_place except = place_of((int)tap_pick(PLACES));
        const hp_stay *seen = hp_stays_except(&stays, &except);
        int wanted = search(noted, n, &except);
        other += seen == &stays.next && wanted >= 0;
        good += case_ok(wanted < 0
                            ? !seen->place.ring
                            : hp_stays_same(&noted[wanted].place, &seen->place) && noted[wanted].since == seen->since,
                        "run %d: %d places, wanted number %d", k, n, wanted);
    }
    is_int(RUNS, good, "of random places the longest other than one of them");
    ok(other > RUNS / 20, "which is the second longest %d times", other);
}

int
main(void)
{
    plan_lazy();
    test_random();
    return tap_failures() != 0;
}
