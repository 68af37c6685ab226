/* SPDX-License-Identifier: MIT */
/*
 * Clocks that are days apart and drift: whatever ways questions and answers take, the true offset is within the stated
 * error; a slow answer does not replace a better one, and an old one gives way.
 */
#include "rendezvous/lateness.h"

#include "base/clock.h"
#include "t/tap/tap.h"

enum { CLOCKS = 200, QUESTIONS = 200 };

/* ns by which the stated offset is wrong. */
static uint64_t
wrong_by(const hp_clock_offset *c, uint64_t here, uint64_t server)
{
    int64_t off = c->offset - (int64_t)(here - server);
    return (uint64_t)(off < 0 ? -off : off);
}

/* The server's clock, which drifts by `drift` millionths. */
static uint64_t
server_clock(uint64_t here, uint64_t ahead, int64_t drift)
{
    return here - ahead + (uint64_t)((int64_t)here * drift / 1000000);
}

static int
one_clock(int n)
{
    hp_clock_offset c = {0};
    uint64_t here = UINT64_C(1) << 48, ahead = (UINT64_C(1) << 47) - tap_random() % (UINT64_C(1) << 48);
    int64_t drift = (int64_t)(tap_random() % 199) - 99;
    int good = 1;
    for (int i = 0; i < QUESTIONS && good; i++) {
        here += tap_random() % (2 * HP_SEC);
        uint64_t asked = here, there = tap_random() % (i % 10 ? HP_MS : HP_SEC), back = tap_random() % HP_MS;
        uint64_t server = server_clock(here + there, ahead, drift);
        here += there + back;
        hp_clock_offset_take(&c, asked, server, here);
        uint64_t wrong = wrong_by(&c, here, server_clock(here, ahead, drift)), error = hp_clock_offset_error(&c, here);
        good = case_ok(wrong <= error + 2, "clock %d, question %d: wrong by %llu, stated %llu", n, i,
                       (unsigned long long)wrong, (unsigned long long)error);
    }
    return good;
}

int
main(void)
{
    hp_clock_offset c = {0};
    int good = 0;
    plan(8);
    tap_limit(240);
    ok(hp_clock_offset_error(&c, 5) == HP_CLOCK_UNKNOWN, "before an answer nothing is known");
    hp_clock_offset_take(&c, 1000, 50, 1200);
    ok(c.offset == 1050 && hp_clock_offset_error(&c, 1200) == 101, "an answer: half of the way is the error");
    hp_clock_offset_take(&c, 2000, 50, 2400);
    ok(c.offset == 1050, "a slower one does not replace it");
    hp_clock_offset_take(&c, 2500, 50, 2600);
    ok(c.offset == 2500 && hp_clock_offset_error(&c, 2600) == 51, "a faster one does");
    ok(hp_clock_offset_error(&c, 2600 + 10 * HP_SEC) == 51 + HP_MS, "the error grows with age");
    hp_clock_offset_take(&c, 20 * HP_SEC, 0, 20 * HP_SEC + HP_MS);
    ok(c.offset == (int64_t)(20 * HP_SEC + HP_MS / 2), "... so that a slower answer replaces an old one");
    hp_clock_offset_take(&c, 30 * HP_SEC, 0, 29 * HP_SEC);
    ok(c.offset == (int64_t)(20 * HP_SEC + HP_MS / 2), "an answer from the future is dropped");
    for (int n = 0; n < CLOCKS; n++)
        good += one_clock(n);
    is_int(CLOCKS, good, "clocks that are days apart and drift");
    return 0;
}
