/* SPDX-License-Identifier: MIT */
/*
 * stall_warning: who holds up a job is said once, at doubling intervals, with rank, host, process, operation and who
 * waits; and once when it goes on. A job's rings have one voice.
 */
#include "rendezvous/stall_warning.h"

#include "base/clock.h"
#include "t/rendezvous/sim.h"
#include "t/tap/tap.h"

#include <string.h>

enum { AFTER_MS = 1000 };

/* A world whose ranks want to hear of a standstill, and wait for ever. */
static void
open_world(sim *s, int n, uint64_t warn_after)
{
    sim_open(s);
    for (int i = 0; i < n; i++) {
        hp_join join = sim_join_of(i, n, 4);
        join.warn_after = i == 0 ? warn_after : 1; /* the first joiner's counts */
        join.op_timeout = 0;
        sim_join(s, i, &join);
    }
    for (int i = 0; i < n; i++)
        sim_say(s, i, HP_READY, NULL, 0);
}

/* Ranks [first, last) but one are in an operation, and say so for so long, without a step more. */
static void
wait_in(sim *s, int first, int last, int absent, uint64_t operation, int ms)
{
    hp_report report = {
        .sequence = operation,
        .step = 3,
        .call = {.kind = HP_ALLREDUCE, .dtype = HOOP_FLOAT32, .op = HOOP_SUM, .root = -1, .count = 262144}};
    for (int passed = 0; passed < ms; passed += 250) {
        for (int i = first; i < last; i++) {
            const sim_conn *g = &s->conns[i];
            report.awaited = (hp_awaited){HP_WAIT_PEER, (g->rank + g->ring.size - 1) % g->ring.size};
            if (i != absent)
                sim_in_op(s, i, HP_PROGRESS, &report);
        }
        sim_pass(s, 250);
    }
}

static void
test_one(void)
{
    sim s;
    open_world(&s, 8, AFTER_MS * HP_MS);
    wait_in(&s, 0, 8, 2, 1041, 750);
    is_int(0, s.warnings, "nothing is said before the time");
    wait_in(&s, 0, 8, 2, 1041, 500);
    is_int(1, s.warnings, "then one line, though seven ranks wait");
    is_string("job 4f21c0de: rank 2 (node1, pid 802) has not entered operation 1041 (allreduce of 262144 x float32, "
              "sum), or was stopped; 7 ranks have waited 1.0 s",
              s.warning, "with rank, host, process, operation, call, and who waits since when");
    wait_in(&s, 0, 8, 2, 1041, 750 + 2000);
    is_int(3, s.warnings, "again after 2 and 4 seconds");
    ok(strstr(s.warning, "7 ranks have waited 4.0 s") != NULL, "%s", s.warning);
    wait_in(&s, 0, 8, 2, 1041, 28000);
    is_int(6, s.warnings, "after 8, 16 and 32 there are six");
    wait_in(&s, 0, 8, -1, 1041, 250);
    for (int i = 0; i < 8; i++)
        sim_count(&s, i, HP_OUT, 1041);
    sim_pass(&s, 100);
    is_int(7, s.warnings, "when all have left the operation");
    is_string("job 4f21c0de: goes on after 32.0 s", s.warning, "that is said");
    sim_pass(&s, 100000);
    is_int(7, s.warnings, "and no more");
    ok(!hp_job_timed(s.job), "the job needs no timer for it");
    wait_in(&s, 0, 8, 5, 1042, 1250);
    is_int(8, s.warnings, "another standstill begins anew");
    sim_close(&s);
}

/* Of two that are missed, one comes: that is no end. */
static void
test_two(void)
{
    sim s;
    open_world(&s, 8, AFTER_MS * HP_MS);
    wait_in(&s, 0, 5, -1, 7, 1250);
    is_int(1, s.warnings, "several are missed: one line");
    ok(strstr(s.warning, "rank 5 (node2, pid 805)") || strstr(s.warning, "rank 7 (node2, pid 807)"), "%s", s.warning);
    wait_in(&s, 0, 7, -1, 7, 1250);
    ok(s.warnings == 2 && strstr(s.warning, "rank 7 (node2, pid 807) has not entered operation 7 "),
       "some have come, one has not: it goes on to be missed, and nothing goes on: %s", s.warning);
    ok(strstr(s.warning, "7 ranks have waited 2.") != NULL, "since the beginning");
    sim_close(&s);
}

static void
test_long(void)
{
    sim s;
    open_world(&s, 4, AFTER_MS * HP_MS);
    for (int k = 0; k < 100; k++) {
        for (int i = 0; i < 4; i++)
            sim_report(&s, i, 1, (uint64_t)k, (i + 3) % 4);
        sim_pass(&s, 250);
    }
    is_int(0, s.warnings, "a long operation that moves is none");
    wait_in(&s, 0, 4, -1, 1, 1250);
    is_int(1, s.warnings, "one that stands still in the middle is");
    for (int k = 100; k < 108; k++) {
        for (int i = 0; i < 4; i++)
            sim_report(&s, i, 1, (uint64_t)k, (i + 3) % 4);
        sim_pass(&s, 250);
    }
    is_string("job 4f21c0de: goes on after 1.5 s", s.warning, "it moves for a second: it goes on, before it has ended");
    is_int(2, s.warnings, "said once");
    sim_close(&s);
    open_world(&s, 4, 0);
    wait_in(&s, 0, 4, 1, 1, 100000);
    is_int(0, s.warnings, "who wants to hear nothing hears nothing");
    sim_close(&s);
}

/* Ranks 0-3 and 4-7 are rings of their own as well. */
static void
test_rings(void)
{
    sim s;
    open_world(&s, 8, AFTER_MS * HP_MS);
    for (int i = 0; i < 8; i++) {
        hp_join join = sim_join_of(-1, 0, 4);
        join.parent = s.conns[0].ring.comm;
        join.split = 1;
        join.parent_rank = i;
        join.parent_size = 8;
        join.color = i / 4;
        join.op_timeout = 0;
        join.warn_after = AFTER_MS * HP_MS;
        sim_join(&s, 8 + i, &join);
    }
    for (int i = 8; i < 16; i++)
        sim_say(&s, i, HP_READY, NULL, 0);
    wait_in(&s, 8, 12, 9, 5, 250);
    wait_in(&s, 12, 16, 13, 5, 250);
    sim_pass(&s, 3000);
    ok(s.warnings == 2 && strstr(s.warning, "job 4f21c0de split 1 colour 0: ") == s.warning,
       "two rings stand still: the first is spoken of, at its times: %s", s.warning);
    for (int i = 8; i < 12; i++)
        sim_count(&s, i, HP_OUT, 5);
    is_string("job 4f21c0de split 1 colour 0: goes on after 3.5 s", s.warning, "it goes on");
    sim_pass(&s, 50);
    ok(s.warnings == 4 && strstr(s.warning, "job 4f21c0de split 1 colour 1: ") == s.warning,
       "then it is the other's turn: %s", s.warning);
    sim_lose(&s, 12);
    sim_pass(&s, 10000);
    is_int(4, s.warnings, "which fails: that is said elsewhere");
    sim_close(&s);
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    test_one();
    test_two();
    test_long();
    test_rings();
    return 0;
}
