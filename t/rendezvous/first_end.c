/* SPDX-License-Identifier: MIT */
/*
 * first_end: a process that ends takes others with it, which end a moment later. The first one is named, also where a reset
 * hides its end for a while, or where another ring of the job sees it first. And what a rank says last may be lost.
 */
#include "base/clock.h"
#include "rendezvous/lookout.h"
#include "t/rendezvous/sim.h"
#include "t/tap/tap.h"

#include <errno.h>

enum { N = 4, FIRST = 1, SECOND = 2, PART = 10 };

static sim s;

static void
start(void)
{
    sim_open(&s);
    sim_world(&s, N, 1);
}

static void
answer(int rank, int ended)
{
    hp_member who = s.conns[0].ring.members[rank];
    hp_job_probed(s.job, &who, ended, s.now);
}

/* Whether the ranks that are left have heard of the end of `rank`; -1: of none. */
static int
is_named(int rank)
{
    return rank < 0 ? s.conns[0].causes == 0 : sim_told(&s, N, -1, HOOP_ERR_PEER_LOST, rank) == N - 2;
}

/* FIRST was reset, which may hide its end, and SECOND has ended. */
static void
start_hidden(void)
{
    start();
    sim_break(&s, FIRST);
    sim_pass(&s, 100);
    sim_lose(&s, SECOND);
}

static void
test_reset_hides(void)
{
    start_hidden();
    sim_pass(&s, 300);
    ok(is_named(-1), "one was reset, and another one has ended: the server does not know yet which was first");
    sim_abort(&s, 0, HOOP_ERR_PEER_LOST, 3, "a consequence");
    sim_lost(&s, 3, SECOND, 0, 1);
    sim_lost(&s, 0, 3, 0, 1);
    sim_pass(&s, 200);
    ok(is_named(-1), "it takes no consequence for the cause meanwhile");
    answer(FIRST, 1);
    ok(is_named(FIRST), "the first one has ended: it is named");
    sim_close(&s);
}

static void
test_innocent(void)
{
    start_hidden();
    answer(FIRST, 0);
    sim_pass(&s, 200);
    ok(is_named(SECOND), "the first one is alive: the second one is named");
    sim_close(&s);
    start();
    sim_break(&s, FIRST);
    answer(FIRST, 0);
    sim_pass(&s, 100);
    sim_lose(&s, SECOND);
    sim_pass(&s, 200);
    ok(is_named(SECOND), "it was known to be alive before: so is this");
    sim_close(&s);
    start_hidden();
    sim_pass(&s, 500);
    ok(is_named(-1), "the host of the first one does not answer");
    sim_pass(&s, 200);
    ok(is_named(SECOND), "nobody waits for that for long");
    sim_close(&s);
    start();
    sim_break(&s, FIRST);
    sim_break(&s, SECOND);
    answer(SECOND, 1);
    ok(is_named(SECOND), "both were reset: the one that is proven to have ended is named");
    sim_close(&s);
}

/* The ranks from FIRST on are in a part as well. */
static void
start_part(void)
{
    start();
    sim_split(&s, PART, FIRST, 0);
}

static void
test_part_sees_it(void)
{
    const hp_member *who[N];
    start_part();
    sim_lose(&s, PART + FIRST);
    sim_pass(&s, 150);
    is_int(1, s.conns[PART + SECOND].causes, "one connection of a process has ended, and its part has heard");
    is_int(1, hp_absence_list(s.job, who, N), "the server asks whether the process has");
    is_int(800 + FIRST, who[0]->pid, "this one");
    sim_pass(&s, 20);
    sim_lose(&s, SECOND);
    sim_pass(&s, 300);
    ok(is_named(-1), "another rank has ended, because of that or not");
    answer(FIRST, 1);
    ok(is_named(-1), "a process that has ended has closed its connections");
    sim_lose(&s, FIRST);
    is_int(N - 2, sim_told(&s, N, -1, HOOP_ERR_PEER_LOST, FIRST), "it has: it was the first");
    sim_close(&s);
    start_part();
    sim_lose(&s, PART + FIRST);
    sim_pass(&s, 150);
    sim_lose(&s, SECOND);
    answer(FIRST, 0);
    sim_pass(&s, 200);
    is_int(N - 1, sim_told(&s, N, -1, HOOP_ERR_PEER_LOST, SECOND), "it lives: the other one is named");
    is_int(0, hp_absence_list(s.job, who, N), "and nobody asks any more");
    sim_close(&s);
    start_part();
    sim_lose(&s, SECOND);
    sim_lose(&s, PART + FIRST);
    sim_lose(&s, FIRST);
    sim_pass(&s, 200);
    is_int(N - 2, sim_told(&s, N, -1, HOOP_ERR_PEER_LOST, SECOND),
           "a part that hears of another end later changes nothing");
    sim_close(&s);
    start_part();
    sim_lose(&s, PART + FIRST);
    hp_member silent = s.conns[0].ring.members[FIRST];
    hp_job_unreached(s.job, &silent, 0, s.now);
    sim_pass(&s, 50);
    sim_lose(&s, SECOND);
    sim_pass(&s, 150);
    is_int(N - 1, sim_told(&s, N, -1, HOOP_ERR_PEER_LOST, SECOND), "nor does a doubt that no probe could settle");
    sim_close(&s);
}

/* Ranks leave after an error in their part, and one that is not in it waits for them here. */
static void
test_leaves_first(void)
{
    start_part();
    sim_report(&s, 0, 1, 2, FIRST);
    sim_count(&s, SECOND, HP_LEAVE, 0);
    sim_lose(&s, FIRST);
    sim_pass(&s, 150);
    is_int(N - 1, sim_told(&s, N, -1, HOOP_ERR_PEER_LOST, FIRST),
           "a rank has left before the end of another one was read: that one is named");
    sim_close(&s);
    start_part();
    sim_lose(&s, PART + FIRST);
    sim_report(&s, 0, 1, 2, FIRST);
    sim_count(&s, SECOND, HP_LEAVE, 0);
    sim_pass(&s, 500);
    ok(is_named(-1), "its part has seen that end: this ring waits for it");
    sim_lose(&s, FIRST);
    sim_pass(&s, 150);
    is_int(N - 1, sim_told(&s, N, -1, HOOP_ERR_PEER_LOST, FIRST), "and names that one");
    sim_close(&s);
    start_part();
    sim_lose(&s, PART + FIRST);
    sim_report(&s, 0, 1, 2, FIRST);
    sim_count(&s, SECOND, HP_LEAVE, 0);
    answer(FIRST, 0);
    sim_pass(&s, 150);
    is_int(N - 1, sim_told(&s, N, SECOND, HOOP_ERR_PEER_LOST, SECOND), "it lives: the one that has left is named");
    sim_close(&s);
    start();
    sim_break(&s, FIRST);
    sim_report(&s, 0, 1, 2, SECOND);
    sim_count(&s, SECOND, HP_LEAVE, 0);
    sim_pass(&s, 300);
    answer(FIRST, 1);
    is_int(N - 1, sim_told(&s, N, -1, HOOP_ERR_PEER_LOST, FIRST), "a reset may hide the end for a while");
    sim_close(&s);
    start_part();
    sim_lose(&s, PART + FIRST);
    sim_count(&s, SECOND, HP_LEAVE, 0);
    sim_lost(&s, 3, SECOND, ECONNRESET, 1);
    sim_pass(&s, 300);
    ok(is_named(-1), "the loss of a link to the rank that has left does not hasten the verdict");
    sim_lose(&s, FIRST);
    sim_pass(&s, 150);
    is_int(N - 1, sim_told(&s, N, -1, HOOP_ERR_PEER_LOST, FIRST), "nor change it");
    sim_close(&s);
    start();
    sim_report(&s, 0, 1, 2, SECOND);
    sim_count(&s, SECOND, HP_LEAVE, 0);
    sim_pass(&s, 50);
    sim_count(&s, FIRST, HP_LEAVE, 0);
    sim_pass(&s, 50);
    is_int(N - 1, sim_told(&s, N, SECOND, HOOP_ERR_PEER_LOST, SECOND), "of two that have left, the first one is named");
    sim_close(&s);
}

/* The end of an operation was said on a connection that was reset, and the program works in another ring for long. */
static void
test_lost_out(void)
{
    start_part();
    sim_report(&s, FIRST, 1, 2, 0);
    sim_break(&s, FIRST);
    for (int i = 0; i < 10; i++) {
        answer(FIRST, 0);
        sim_pass(&s, 500);
    }
    ok(is_named(-1), "one that is alive and does not dial is in no operation: none times out");
    is_int(0, sim_return(&s, FIRST, &s.conns[FIRST], 1), "it comes back");
    sim_report(&s, FIRST, 2, 1, 0);
    answer(FIRST, 0);
    const hp_roster *world = hp_job_ring(s.job->rosters, s.conns[0].ring.comm);
    is_int(1, world->witnesses[FIRST].in_op, "and is in the next operation, whoever asks about it");
    sim_pass(&s, 3000);
    is_int(1, s.conns[0].causes, "the next operation has a limit as ever");
    sim_close(&s);
}

int
main(void)
{
    tap_limit(20);
    plan_lazy();
    test_reset_hides();
    test_innocent();
    test_part_sees_it();
    test_leaves_first();
    test_lost_out();
    return tap_failures() != 0;
}
