/* SPDX-License-Identifier: MIT */
/*
 * candidate: who has room in the middle of a handshake, on a clock of the test's own: an attacker replays what it has
 * recorded, an honest rank comes now and then.
 */
#include "net/incoming.h"

#include "base/clock.h"
#include "base/mem.h"
#include "t/tap/tap.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 66, RECORDED = 1100, EVERY_MS = 20 };

static hp_candidates candidates;
static uint64_t now; /* the test's clock */

static int
is_new(uint64_t nonce)
{
    uint8_t m1[HP_M1] = {0};
    memcpy(m1 + HP_M1_NONCE, &nonce, sizeof(nonce));
    return hp_candidates_note(&candidates, m1);
}

static hp_candidate *
add(int expendable)
{
    hp_candidate *candidate = hp_alloc(1, sizeof(*candidate));
    candidate->incoming.fd = -1;
    candidate->incoming.deadline = now + 5 * HP_SEC;
    candidate->greeted = now;
    candidate->expendable = expendable;
    candidate->handshake.state = HP_HANDSHAKE_CONFIRM;
    hp_candidates_add(&candidates, candidate);
    return candidate;
}

static void
drop(hp_candidate *candidate)
{
    hp_candidates_remove(&candidates, candidate);
    free(candidate);
}

static void
clear(void)
{
    while (candidates.first)
        drop(candidates.first);
    candidates.noted = 0;
}

/* As the acceptor does it; NULL: the new one is told to wait. */
static hp_candidate *
come(int expendable, hp_candidate **goes)
{
    if (!hp_candidates_room(&candidates, MOST, now, goes))
        return NULL;
    if (*goes)
        drop(*goes);
    return add(expendable);
}

static void
sweep(void)
{
    for (hp_candidate *candidate = candidates.first, *next; candidate; candidate = next) {
        next = candidate->next;
        if (candidate->incoming.deadline <= now)
            drop(candidate);
    }
}

static void
test_order(void)
{
    hp_candidate *goes, *first, *refused;
    now = 100 * HP_SEC;
    first = add(0);
    now += HP_MS;
    refused = add(1);
    while (candidates.count < MOST - 1)
        add(0);
    ok(come(0, &goes) && !goes, "while there is room nobody goes");
    ok(come(0, &goes) && goes == refused, "the first to go is one that will be refused");
    ok(!come(0, &goes) && !goes, "then a new one waits, for all that are here may be about to confirm");
    now += HP_SEC - 2 * HP_MS;
    ok(!come(0, &goes), "up to a second");
    now += HP_MS;
    ok(come(0, &goes) && goes == first, "then the oldest that has not confirmed goes");
    for (hp_candidate *candidate = candidates.first; candidate; candidate = candidate->next)
        candidate->handshake.state = HP_HANDSHAKE_JUDGE;
    now += 10 * HP_SEC;
    ok(!come(0, &goes), "one that has confirmed never goes");
    clear();
}

/*
 * A recorded greeting comes each EVERY_MS (rate 1) for 60 s; `different` of them. A rank comes once a second, takes 200 ms
 * to confirm, and comes again after a wait if it found no room. Returns how many attempts it lost on the way.
 */
static int
attack(int different, int rate, int *in)
{
    int lost = 0, sent = 0;
    hp_candidate *rank = NULL, *goes;
    uint64_t own = UINT64_MAX, again = now, confirm = 0;
    *in = 0;
    for (uint64_t end = now + 60 * HP_SEC; now < end; now += EVERY_MS * HP_MS) {
        sweep();
        for (int i = 0; i < rate; i++) {
            if (is_new((uint64_t)(1 + sent++ % different)) && come(0, &goes) && goes == rank && rank) {
                rank = NULL;
                lost++;
            }
        }
        if (!rank && now >= again && is_new(own--)) {
            rank = come(0, &goes);
            lost += !rank;
            again = now + HP_SEC;
            confirm = now + 200 * HP_MS;
        }
        if (rank && now >= confirm) {
            drop(rank);
            rank = NULL;
            ++*in;
        }
    }
    clear();
    return lost;
}

static void
test_attacks(void)
{
    int in, lost = attack(RECORDED, 1, &in);
    ok(lost == 0 && in >= 59, "%d greetings recorded, 50 a second: a rank got in %d times and lost %d attempts",
       RECORDED, in, lost);
    lost = attack(16000, 1, &in);
    ok(lost == 0 && in >= 59, "16000 recorded: %d times, %d lost", in, lost);
    lost = attack(1000000, 1, &in);
    ok(lost == 0 && in >= 59, "all of them new: %d times, %d lost", in, lost);
    lost = attack(RECORDED, 20, &in);
    ok(lost <= 5 && in >= 50, "1000 a second: %d times, %d lost", in, lost);
    lost = attack(1000000, 20, &in);
    ok(in >= 1, "1000 new ones a second: %d times, %d lost", in, lost);
}

int
main(void)
{
    tap_limit(60);
    plan_lazy();
    test_order();
    test_attacks();
    return 0;
}
