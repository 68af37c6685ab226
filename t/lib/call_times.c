/* SPDX-License-Identifier: MIT */
/*
 * call_times: ranks of a job that runs for days, on clocks that are days apart and drift, whose answers come soon or late.
 * Who calls late is late by that on average, whatever the clocks do meanwhile, and the stated error holds.
 */
#include "lib/account.h"

#include "base/clock.h"
#include "t/tap/tap.h"

enum { RANKS = 4, LATE = 2, DAY = 24 * 3600, DAYS = 3, WAYS_MOST = 200000 };

#define LATE_BY (3 * HP_MS)
#define HOUR (3600 * HP_SEC)

/* A rank's clock is `ahead` of the server's, drifts by so many billionths, and gains and loses as much by turns. */
typedef struct rank {
    hp_call_times times;
    hp_clock_offset clock;
    uint64_t ahead;
    int64_t drift, wander;
} rank;

static int64_t
billionths(uint64_t ns, int64_t n)
{
    return (int64_t)(ns / 1000) * n / 1000000;
}

static uint64_t
clock_of(const rank *r, uint64_t server)
{
    uint64_t at = server % (2 * HOUR), gained = at < HOUR ? at : 2 * HOUR - at;
    return server + r->ahead + (uint64_t)(billionths(server, r->drift) + billionths(gained, r->wander));
}

/* A question; of the way there and back one may be the whole. */
static void
compare(rank *r, uint64_t server)
{
    uint64_t there = tap_random() % WAYS_MOST, back = tap_random() % WAYS_MOST;
    hp_clock_offset_take(&r->clock, clock_of(r, server), server + there, clock_of(r, server + there + back));
    hp_call_times_compared(&r->times, &r->clock);
}

/* The ranks compare their clocks each second, and call twice in it; the first calls come before that. */
static void
run(rank *ranks, uint64_t seconds)
{
    for (uint64_t t = 0; t < seconds; t++) {
        for (int i = 0; i < RANKS; i++) {
            for (int k = 0; k < 2; k++)
                hp_call_times_add(&ranks[i].times, clock_of(&ranks[i], (t + 1) * HP_SEC + (uint64_t)k * HP_SEC / 3 +
                                                                           (i == LATE ? LATE_BY : 0)));
            compare(&ranks[i], (t + 1) * HP_SEC + HP_SEC / 2);
        }
    }
}

static void
find(const rank *ranks, uint64_t *late)
{
    hp_entry_times times[RANKS];
    for (int i = 0; i < RANKS; i++)
        times[i] = ranks[i].times.known;
    hp_lateness(times, RANKS, late);
}

/* ns by which the mean of a rank's times is wrong. */
static uint64_t
wrong_by(const rank *r, int i, uint64_t seconds)
{
    uint64_t sum = seconds * (seconds + 1) * HP_SEC + seconds * (HP_SEC / 3) + (i == LATE ? 2 * seconds * LATE_BY : 0);
    int64_t wrong = (int64_t)(r->times.known.sum - sum);
    return (uint64_t)(wrong < 0 ? -wrong : wrong) / r->times.known.count;
}

static void
days(void)
{
    static const uint64_t lengths[] = {5, 3600, DAY, DAYS * DAY};
    for (int n = 0; n < 4; n++) {
        rank ranks[RANKS] = {0};
        uint64_t late[RANKS];
        for (int i = 0; i < RANKS; i++)
            ranks[i] = (rank){.ahead = (UINT64_C(1) << 52) + (uint64_t)i * (UINT64_C(1) << 49),
                              .drift = i * 13000 - 20000,
                              .wander = i * 20000 - 30000};
        run(ranks, lengths[n]);
        find(ranks, late);
        for (int i = 0; i < RANKS; i++) {
            uint64_t wrong = wrong_by(&ranks[i], i, lengths[n]);
            uint64_t error = ranks[i].times.known.error / ranks[i].times.known.count;
            ok(ranks[i].times.known.count == 2 * lengths[n] && wrong <= error && error < HP_MS,
               "%llu s: rank %d is wrong by %llu ns, and states %llu", (unsigned long long)lengths[n], i,
               (unsigned long long)wrong, (unsigned long long)error);
            int64_t off = (int64_t)(late[i] - LATE_BY);
            ok(i == LATE ? off > -(int64_t)HP_MS && off < (int64_t)HP_MS : late[i] == 0, "it is late by %llu ns",
               (unsigned long long)late[i]);
        }
    }
}

static void
before_a_comparison(void)
{
    hp_call_times t = {0};
    const hp_clock_offset clock = {.at = 50 * HP_SEC, .offset = 1000, .error = 7};
    hp_call_times_add(&t, 10 * HP_SEC);
    hp_call_times_add(&t, 30 * HP_SEC);
    ok(t.known.count == 0 && t.known.sum == 0, "before the clocks are compared no time is known");
    hp_call_times_compared(&t, &(hp_clock_offset){0});
    ok(t.known.count == 0, "nor after a comparison that has brought nothing");
    hp_call_times_compared(&t, &clock);
    ok(t.known.count == 2 && t.known.sum == 40 * HP_SEC - 2000, "then they are, by the server's clock");
    ok(t.known.error == 2 * (7 + 40 * HP_SEC / HP_CLOCK_DRIFT + 1), "with the drift since the first of them");
    hp_call_times_add(&t, 51 * HP_SEC);
    ok(t.known.count == 3 && t.known.sum == 91 * HP_SEC - 3000, "a later one at once");
    hp_call_times_compared(&t, &clock);
    ok(t.known.count == 3, "and each once");
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    before_a_comparison();
    days();
    return 0;
}
