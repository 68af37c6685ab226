/* SPDX-License-Identifier: MIT */
/*
 * The group of a shrink: whom it awaits, whom it leaves behind, and that no two rings come of one. Without sockets and
 * without a clock. At the end seeded lives of eight ranks, which die, fall silent, are reset, leave, come late, and die
 * again while the next ring is linked.
 */
#include "t/rendezvous/sim.h"

#include "base/clock.h"
#include "base/err.h"
#include "rendezvous/lookout.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 4 };

static sim s;
static uint32_t patience = 5000; /* of the calls, ms */

/* Rank `rank` of the ring of conn `member` comes as conn g, and has completed so many operations. */
static int
shrink(int g, int member, uint64_t completed)
{
    hp_join join = sim_derived_of(&s, member);
    join.shrink = 1;
    join.patience = patience;
    join.started = completed + 1;
    join.completed = completed;
    return sim_join(&s, g, &join);
}

static void
open_world(void)
{
    sim_open(&s);
    sim_world(&s, N, 1);
}

static void
those_left(void)
{
    open_world();
    sim_lose(&s, 2);
    shrink(13, 3, 7);
    shrink(10, 0, 6);
    ok(!s.conns[10].joined, "not before all that are left have come");
    shrink(11, 1, 6);
    ok(sim_has_ring(&s, 10, 0, 3, 1) && sim_has_ring(&s, 11, 1, 3, 1) && sim_has_ring(&s, 13, 2, 3, 1),
       "three ranks, in the old order");
    is_int(803, s.conns[10].ring.members[2].pid, "... each with its process");
    ok(s.conns[10].ring.least == 6 && s.conns[13].ring.most == 7, "... and one history");
    for (int g = 10; g <= 13; g++)
        if (g != 12)
            sim_say(&s, g, HP_READY, NULL, 0);
    ok(s.conns[10].go && s.conns[13].go, "it is linked as any other");
    is_string("job 4f21c0de epoch 1: 3 ranks on 3 hosts joined, ring up after 0.00 s", s.line, "the log says so");
    shrink(22, 2, 6);
    ok(s.conns[22].cause.code == HOOP_ERR_STALE_EPOCH && s.conns[22].disconnected, "the one left behind is told that");
    ok(strstr(s.conns[22].cause.text, "gone on without this one, as epoch 1") != NULL, "... so");
    sim_lose(&s, 11);
    sim_pass(&s, 200);
    ok(s.conns[10].cause.code == HOOP_ERR_PEER_LOST && s.conns[10].cause.rank == 1, "the next ring fails as any other");
    shrink(30, 10, 9);
    shrink(33, 13, 9);
    ok(sim_has_ring(&s, 30, 0, 2, 2) && sim_has_ring(&s, 33, 1, 2, 2), "... and is shrunk as any other");
    sim_close(&s);
}

static void
healthy(void)
{
    open_world();
    shrink(11, 1, 3);
    ok(sim_told(&s, N, -1, HOOP_ERR_ABORTED, 1) == N, "a rank that shrinks a sound ring ends it");
    is_string("rank 1 (node2) called hoop_comm_shrink", s.conns[0].cause.text, "... and is named");
    for (int i = 0; i < N; i++)
        if (i != 1)
            shrink(10 + i, i, 3);
    ok(sim_has_ring(&s, 10, 0, 4, 1) && sim_has_ring(&s, 13, 3, 4, 1), "... for all the others to form the next one");
    sim_close(&s);
}

/* Ranks 0 and 1 wait, rank 3 is dead. */
static void
open_waiting(void)
{
    open_world();
    sim_lose(&s, 3);
    shrink(10, 0, 1);
    shrink(11, 1, 1);
}

/* What happens to rank 2 while the others wait. */
static void
awaited(void)
{
    open_waiting();
    sim_pass(&s, 2000);
    ok(!s.conns[10].joined, "a rank that lives is awaited");
    is_string("job 4f21c0de: rank 2 has not called hoop_comm_shrink of the whole job; 2 ranks have waited 2.0 s",
              s.warning, "... and lines say so");
    sim_pass(&s, 2900);
    ok(!s.conns[10].joined, "... until the time of those that wait is up");
    sim_pass(&s, 200);
    ok(sim_has_ring(&s, 10, 0, 2, 1) && sim_has_ring(&s, 11, 1, 2, 1), "... and then left behind");
    sim_pass(&s, 4000);
    sim_say(&s, 10, HP_READY, NULL, 0);
    sim_say(&s, 11, HP_READY, NULL, 0);
    ok(s.conns[10].go && !s.conns[10].causes, "... and those that waited have as long again for their links");
    sim_close(&s);
}

static void
gone(void)
{
    open_waiting();
    sim_count(&s, 2, HP_LEAVE, 0);
    ok(sim_has_ring(&s, 10, 0, 2, 1), "one that leaves is not awaited");
    sim_close(&s);
    open_waiting();
    sim_break(&s, 2);
    sim_pass(&s, 1000);
    ok(!s.conns[10].joined, "one whose connection is reset may come back");
    hp_job_probed(s.job, &s.conns[0].ring.members[2], 1, s.now);
    ok(sim_has_ring(&s, 10, 0, 2, 1), "... unless its process has ended");
    sim_close(&s);
    open_waiting();
    sim_break(&s, 2);
    shrink(12, 2, 1);
    ok(sim_has_ring(&s, 12, 2, 3, 1), "one that was reset and comes has its place");
    sim_close(&s);
    open_world();
    sim_lose(&s, 3);
    shrink(10, 0, 1);
    hp_absence_see(&s.conns[2].conn, 60 * HP_SEC);
    shrink(11, 1, 1);
    ok(sim_has_ring(&s, 10, 0, 2, 1), "one whose host is cut off is not awaited");
    sim_close(&s);
    open_world();
    sim_lose(&s, 3);
    patience = 60000;
    shrink(10, 0, 1);
    patience = 5000;
    for (int i = 0; i < 3; i++)
        hp_absence_see(&s.conns[i].conn, 60 * HP_SEC);
    hp_absence_see(&s.conns[10].conn, 60 * HP_SEC);
    sim_break(&s, 2);
    sim_pass(&s, 6000);
    ok(!s.conns[10].joined, "all are, or the server is: they are awaited, even if their connections break");
    hp_absence_see(&s.conns[10].conn, 0);
    hp_absence_see(&s.conns[0].conn, 0);
    sim_pass(&s, 9000);
    ok(!s.conns[10].joined, "... and for a moment after it hears one of them");
    sim_pass(&s, 2000);
    ok(sim_has_ring(&s, 10, 0, 1, 1), "... but no longer");
    sim_close(&s);
}

static void
breaks(void)
{
    open_waiting();
    sim_lose(&s, 11);
    sim_lose(&s, 1);
    shrink(12, 2, 1);
    ok(sim_has_ring(&s, 10, 0, 2, 1) && sim_has_ring(&s, 12, 1, 2, 1), "one that dies in the shrink is left out");
    sim_lose(&s, 12);
    ok(s.conns[10].cause.code == HOOP_ERR_PEER_LOST, "one that dies while the ring is linked ends it");
    sim_lose(&s, 2);
    shrink(20, 0, 1);
    ok(sim_has_ring(&s, 20, 0, 1, 1), "... and the others come once more, with the old ring");
    sim_say(&s, 20, HP_READY, NULL, 0);
    ok(s.conns[20].go, "... and are alone, if need be");
    sim_close(&s);
    open_world();
    sim_lose(&s, 3);
    shrink(10, 0, 1);
    sim_abort(&s, 10, HOOP_ERR_ABORTED, 0, "rank 0 was interrupted");
    sim_lose(&s, 10);
    sim_lose(&s, 0);
    shrink(11, 1, 1);
    shrink(12, 2, 1);
    ok(sim_has_ring(&s, 11, 0, 2, 1), "one that gives up is left out");
    sim_close(&s);
}

static void
refusals(void)
{
    uint8_t bytes[HP_CONTROL_MAX];
    hp_join join = sim_join_of(1, N, 1);
    open_world();
    sim_enter(&s, 11, &join);
    is_int(-1, sim_say(&s, 11, HP_SHRINK, bytes, hp_join_put(bytes, &join)), "a shrink of no ring");
    ok(s.conns[11].cause.code == HOOP_ERR_PROTOCOL, "... is told so");
    s.conns[0].ring.comm += 5;
    shrink(10, 0, 1);
    ok(s.conns[10].cause.code == HOOP_ERR_RENDEZVOUS, "a ring that is not here");
    s.conns[0].ring.comm -= 5;
    sim_lose(&s, 3);
    shrink(20, 0, 1);
    shrink(30, 0, 1);
    ok(s.conns[30].cause.code == HOOP_ERR_RENDEZVOUS && strstr(s.conns[30].cause.text, "duplicate"), "a rank twice");
    sim_close(&s);
}

/* --- lives --- */

enum { RANKS = 8 };

typedef struct life {
    int dead, behind; /* behind: the others have gone on, or no rank of its ring is connected any more */
    int has, joins;   /* conns of the ring that it has, and of the one that it joins; -1: none */
} life;

static life who[RANKS];
static int next_conn;

/* What the rank's own process does next, as libhoop would. */
static void
act(life *one)
{
    const sim_conn *joins = one->joins < 0 ? NULL : &s.conns[one->joins];
    if (!joins) {
        if (!s.conns[one->has].causes || next_conn == SIM_MAX)
            return;
        one->joins = next_conn++;
        shrink(one->joins, one->has, 1);
    } else if (joins->go) {
        sim_lose(&s, one->has);
        one->has = one->joins;
        one->joins = -1;
    } else if (joins->causes) { /* a failed attempt is made again */
        one->behind = joins->cause.code == HOOP_ERR_STALE_EPOCH || joins->cause.code == HOOP_ERR_RENDEZVOUS;
        sim_lose(&s, one->joins);
        one->joins = -1;
    } else if (joins->joined) {
        sim_say(&s, one->joins, HP_READY, NULL, 0);
    }
}

static void
die(life *one)
{
    one->dead = 1;
    sim_lose(&s, one->has);
    if (one->joins >= 0)
        sim_lose(&s, one->joins);
}

/* All that live and were not left behind have one ring in the end, and nobody else is in it. */
static int
is_one_ring(void)
{
    int good = 1, members = 0;
    const hp_ring *first = NULL;
    for (int i = 0; i < RANKS; i++) {
        const sim_conn *conn = &s.conns[who[i].has];
        if (who[i].dead || who[i].behind)
            continue;
        first = first ? first : &conn->ring;
        good &= who[i].joins < 0 && !conn->causes && conn->ring.comm == first->comm;
        members++;
    }
    return good && (!first || first->size == members);
}

static int
lives(uint64_t seed)
{
    sim_open(&s);
    sim_world(&s, RANKS, 2);
    next_conn = RANKS;
    for (int i = 0; i < RANKS; i++)
        who[i] = (life){.has = i, .joins = -1};
    for (int step = 0; step < 300; step++) {
        life *one = &who[(seed = tap_mix(seed)) % RANKS];
        int what = (int)(seed >> 32 & 63), living = 0;
        for (int i = 0; i < RANKS; i++)
            living += !who[i].dead && !who[i].behind;
        if (seed >> 40 & 1)
            sim_pass(&s, 50);
        if (one->dead || one->behind)
            continue;
        if (what == 0 && living > 1)
            die(one);
        else if (what == 1 && s.conns[one->has].causes && s.conns[one->has].present)
            sim_break(&s, one->has);
        else if (what > 20)
            act(one);
    }
    for (int step = 0; step < 50 * RANKS; step++) { /* nothing else happens any more */
        sim_pass(&s, step % RANKS ? 0 : 500);
        if (!who[step % RANKS].dead && !who[step % RANKS].behind)
            act(&who[step % RANKS]);
    }
    int good = is_one_ring();
    sim_close(&s);
    return good;
}

int
main(void)
{
    plan_lazy();
    those_left();
    healthy();
    awaited();
    gone();
    breaks();
    refusals();
    int n = getenv("HOOP_TEST_FULL") ? 100000 : 3000, good = 0;
    for (int i = 0; i < n; i++) {
        uint64_t seed = tap_random();
        int fine = lives(seed);
        if (!fine)
            diag("seed %llu", (unsigned long long)seed);
        good += fine;
    }
    is_int(n, good, "of each life one ring is left");
    return tap_failures() != 0;
}
