/* SPDX-License-Identifier: MIT */
/*
 * The lease of an agent in networks that are cut for some time, or for ever: an outage up to the time-out ends no rank,
 * whenever it begins, although TCP is silent for twice as long; after a longer one the ranks have been killed before the
 * launcher gives the host up. Time is the test's, in steps of 50 ms.
 */
#include "launch/lease.h"

#include "base/clock.h"
#include "t/tap/tap.h"

#include <inttypes.h>

#define STEP (50 * HP_MS)
#define START (100 * HP_SEC)     /* an arbitrary time of the loop */
#define GRACE (2 * HP_SEC)       /* between TERM and KILL */
#define ROUND_TRIP (500 * HP_MS) /* of a slow network */

/* When TCP, whose first segment was lost at `lost`, sends it again for the first time at `back` or later. */
static uint64_t
recovery(uint64_t lost, uint64_t back)
{
    uint64_t wait = 200 * HP_MS, at = lost;
    while (at < back) {
        at += wait;
        wait = wait < 60 * HP_SEC ? 2 * wait : 120 * HP_SEC;
    }
    return at;
}

typedef struct course {
    uint64_t cut, back; /* the network is cut from, until */
    int answers;        /* 1: a knock is answered whenever the network is there, 0: never (a firewall) */
} course;

/* When the ranks are ended; HP_NEVER: the connection has recovered. */
static uint64_t
live(const hp_lease *lease, const course *c)
{
    uint64_t heard = START, answered = 0, spoke = START, look = START, lost = 0, recovers = HP_NEVER, coming = HP_NEVER;
    for (uint64_t now = START;; now += STEP) {
        if (now >= spoke + lease->ping) {
            spoke = now;
            if (now < c->cut)
                heard = now;
            else if (lost == 0)
                recovers = recovery(lost = now, c->back);
        }
        if (now >= recovers)
            return HP_NEVER;
        if (now >= coming) {
            answered = now;
            coming = HP_NEVER;
        }
        if (now < look + lease->knock)
            continue;
        look = now;
        hp_lease_word word = hp_lease_judge(lease, heard, answered, now);
        if (word == HP_LEASE_OVER)
            return now;
        if (word == HP_LEASE_KNOCK)
            coming = c->answers && (now < c->cut || now >= c->back) ? now + ROUND_TRIP - STEP : HP_NEVER;
    }
}

static void
check_outages(uint64_t timeout)
{
    const hp_lease lease = hp_lease_of(timeout);
    for (uint64_t percent = 10; percent <= 100; percent += 5)
        for (uint64_t phase = 0; phase < 8; phase++) {
            uint64_t cut = START + lease.ping * (8 + phase) / 8;
            const course c = {.cut = cut, .back = cut + timeout * percent / 100, .answers = 1};
            uint64_t end = live(&lease, &c);
            if (end != HP_NEVER) {
                ok(0,
                   "time-out %" PRIu64 " ms, an outage of %" PRIu64 " percent, phase %" PRIu64
                   ": ranks ended after %g s",
                   timeout / HP_MS, percent, phase, (double)(end - cut) / 1e9);
                return;
            }
        }
    ok(1, "time-out %" PRIu64 " ms: outages up to it end no rank", timeout / HP_MS);
}

static void
check_cut(uint64_t timeout)
{
    const hp_lease lease = hp_lease_of(timeout);
    uint64_t cut = START + 2 * lease.ping + lease.ping / 2, heard = cut - lease.ping / 2;
    uint64_t end = live(&lease, &(course){.cut = cut, .back = HP_NEVER / 4, .answers = 1});
    ok(end >= cut + timeout, "time-out %" PRIu64 " ms: a cut ends the ranks after the time-out", timeout / HP_MS);
    ok(end + GRACE <= heard + lease.lost, "and the launcher gives them up when they have been killed");
    end = live(&lease, &(course){.cut = cut, .back = cut + timeout / 4, .answers = 0});
    is_uint(HP_NEVER, end, "an outage of a quarter needs no answer to a knock");
}

int
main(void)
{
    static const uint64_t timeouts[] = {1, 2, 3, 10, 30, 60, 120, 600};
    tap_limit(60);
    plan_lazy();
    for (size_t i = 0; i < sizeof(timeouts) / sizeof(timeouts[0]); i++) {
        check_outages(timeouts[i] * HP_SEC);
        check_cut(timeouts[i] * HP_SEC);
    }
    const hp_lease usual = hp_lease_of(30 * HP_SEC);
    is_uint(36 * HP_SEC, usual.end, "at the default: 36 s end the ranks");
    is_uint(42 * HP_SEC, usual.lost, "and 42 s the job");
    /* A launcher that is stopped: the kernel answers for it. */
    ok(hp_lease_judge(&usual, START, START + 80 * HP_SEC, START + 81 * HP_SEC) == HP_LEASE_KNOCK,
       "while knocks are answered, silence means nothing");
    ok(hp_lease_judge(&usual, START, START + 95 * HP_SEC, START + 96 * HP_SEC) == HP_LEASE_OVER,
       "for three times the time-out");
    ok(hp_lease_judge(&usual, START, START + 9 * HP_SEC, START + 45 * HP_SEC) == HP_LEASE_OVER,
       "an answer counts as long as a word does");
    ok(hp_lease_judge(&usual, START, START - HP_SEC, START + 8 * HP_SEC) == HP_LEASE_WAIT, "a short silence is none");
    return 0;
}
