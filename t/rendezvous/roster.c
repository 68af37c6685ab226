/* SPDX-License-Identifier: MIT */
/*
 * roster: the verdicts. Who vanishes, at whatever moment, is named once to everyone else; the first cause wins; a
 * stalled ring ends after the operation time-out and not before.
 */
#include "base/clock.h"
#include "base/err.h"
#include "t/rendezvous/sim.h"
#include "t/tap/tap.h"

#include <string.h>

static void
test_peace(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, 8, 4);
    int go = 0;
    for (int i = 0; i < 8; i++)
        go += s.conns[i].go == 1 && s.conns[i].rank == i;
    is_int(8, go, "each of 8 ranks hears GO once");
    is_string("job 4f21c0de: 8 ranks on 2 hosts joined, ring up after 0.00 s", s.line, "a line says so");
    ok(!hp_job_timed(s.job), "a ring in which nothing lasts needs no timer");
    sim_pass(&s, 100000);
    for (int i = 0; i < 8; i++) {
        sim_count(&s, i, HP_LEAVE, 1041);
        sim_lose(&s, i);
    }
    is_string("job 4f21c0de: over: all 8 ranks left after 1041 operations", s.line, "and another at the end");
    is_int(0, sim_told(&s, 8, -1, HOOP_ERR_PEER_LOST, 0), "nobody was blamed");
    ok(hp_job_idle(s.job), "nothing is kept");
    sim_close(&s);
}

/* In the bring-up, points 0 and 1, no operation is asked for. */
static int
operation_is_known(int point)
{
    return point <= 1 || (point >= 3 && point <= 5);
}

/* Every victim, at every point of a small story. */
static void
test_losses(void)
{
    enum { N = 5, POINTS = 7 };
    int good = 0;
    for (int victim = 0; victim < N; victim++)
        for (int point = 0; point < POINTS; point++) {
            sim s;
            sim_open(&s);
            for (int i = 0; i < N; i++) {
                hp_join join = sim_join_of(i, N, 2);
                sim_join(&s, i, &join);
            }
            for (int i = 0; point >= 1 && i < N - (point == 1); i++)
                sim_say(&s, i, HP_READY, NULL, 0);
            if (point >= 3)
                sim_report(&s, (victim + 1) % N, 17, 2, victim);
            if (point >= 4)
                sim_report(&s, victim, 17, 1, (victim + 4) % N);
            if (point >= 5)
                sim_count(&s, victim, HP_OUT, 17);
            if (point >= 6)
                sim_count(&s, (victim + 1) % N, HP_OUT, 17);
            sim_lose(&s, victim);
            sim_pass(&s, operation_is_known(point) ? 0 : 100);
            int told = sim_told(&s, N, victim, HOOP_ERR_PEER_LOST, victim);
            const hoop_error *cause = &s.conns[(victim + 1) % N].cause;
            int phase = point < 2 ? HOOP_PHASE_BRINGUP : HOOP_PHASE_OPERATION;
            uint64_t operation = operation_is_known(point) && point > 1 ? 17 : 0;
            good += case_int(N - 1, told, "rank %d vanishes at point %d: ranks that are told", victim, point) &&
                    case_int(phase, cause->phase, "rank %d vanishes at point %d: the phase", victim, point) &&
                    case_int((intmax_t)operation, (intmax_t)cause->sequence, "rank %d vanishes at point %d: operation",
                             victim, point);
            sim_close(&s);
        }
    is_int(N * POINTS, good, "each of %d ranks vanishes at each of %d points: all others are told, once", N, POINTS);
}

static void
test_words(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, 8, 4);
    sim_report(&s, 4, 17, 3, 3);
    sim_lose(&s, 3);
    is_string("rank 3 (node1, pid 803) vanished during operation 17: its process ended or its connection broke",
              s.conns[0].cause.text, "the sentence of a loss");
    sim_lose(&s, 4);
    sim_abort(&s, 5, HOOP_ERR_CORRUPT, 4, "late");
    sim_pass(&s, 60000);
    is_int(6, sim_told(&s, 8, -1, HOOP_ERR_PEER_LOST, 3), "what follows from a loss changes nothing");
    is_int(HP_AT_END, hp_roster_where(s.conns[0].conn.roster, 0), "the ring is at its end");
    sim_close(&s);
}

/* A process ends: its control connection may end before its neighbours have told in which operation they are. */
static void
test_told_late(void)
{
    sim s;
    hp_report report = {.sequence = 17, .awaited = {HP_WAIT_PEER, 3}, .call = {.kind = HP_BARRIER}};
    uint8_t payload[HP_REPORT_BYTES];
    hp_report_put(payload, &report);
    sim_open(&s);
    sim_world(&s, 4, 4);
    sim_lose(&s, 3);
    sim_pass(&s, 50);
    is_int(0, s.conns[0].causes, "a rank has gone, and nobody is in an operation: for a moment no verdict");
    sim_say(&s, 2, HP_IN_OP, payload, HP_REPORT_BYTES);
    is_string("rank 3 (node1, pid 803) vanished during operation 17 (barrier): its process ended or its connection "
              "broke",
              s.conns[0].cause.text, "a rank that is in one tells it");
    is_int(3, sim_told(&s, 4, 3, HOOP_ERR_PEER_LOST, 3), "and all are told");
    sim_close(&s);
    sim_open(&s);
    sim_world(&s, 4, 4);
    sim_lose(&s, 3);
    sim_abort(&s, 2, HOOP_ERR_CORRUPT, 1, "what follows");
    is_int(3, sim_told(&s, 4, 3, HOOP_ERR_PEER_LOST, 3), "what a rank reports after that is not the cause");
    sim_close(&s);
    sim_open(&s);
    sim_world(&s, 4, 4);
    sim_lose(&s, 3);
    sim_count(&s, 2, HP_LEAVE, 16);
    is_int(2, sim_told(&s, 3, 2, HOOP_ERR_PEER_LOST, 3), "nor is a rank that leaves then");
    sim_close(&s);
}

/* The server ends while a verdict is put off. */
static void
test_closed(void)
{
    sim s;
    hoop_error cause;
    sim_open(&s);
    hp_err_set(&cause, HOOP_ERR_RENDEZVOUS, "the server ends");
    sim_world(&s, 4, 4);
    sim_lose(&s, 3);
    hp_job_close(s.job, &cause, s.now);
    is_int(3, sim_told(&s, 4, 3, HOOP_ERR_PEER_LOST, 3), "all ranks hear of the one that has gone");
    sim_close(&s);
    sim_open(&s);
    sim_world(&s, 4, 4);
    sim_lost(&s, 1, 2, 104, 7);
    is_int(0, s.conns[0].causes, "a connection has ended, and its other end may say more");
    hp_job_close(s.job, &cause, s.now);
    is_int(4, sim_told(&s, 4, -1, HOOP_ERR_PEER_LOST, 1), "all ranks hear of that connection");
    sim_close(&s);
    sim_open(&s);
    sim_world(&s, 4, 4);
    hp_job_close(s.job, &cause, s.now);
    is_int(0, s.conns[0].causes, "a ring that is well goes on without the server");
    sim_close(&s);
}

static void
test_abort(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, 4, 4);
    is_int(0, sim_abort(&s, 2, HOOP_ERR_MISMATCH, 1, "rank 1 called barrier"), "rank 2 reports a mismatch");
    is_int(3, sim_told(&s, 4, 2, HOOP_ERR_MISMATCH, 1), "all others hear it");
    is_int(0, s.conns[2].causes, "the reporter does not: it knows");
    is_int(2, s.conns[0].cause.reporter, "they hear who reported it");
    is_string("rank 1 called barrier", s.conns[3].cause.text, "word for word");
    sim_close(&s);
    sim_open(&s);
    sim_world(&s, 4, 4);
    is_int(-1, sim_abort(&s, 2, HOOP_ERR_MISMATCH, 4, "x"), "a cause that names rank 4 of 4 is a breach of protocol");
    is_int(-1, sim_abort(&s, 2, HOOP_SUCCESS, 1, "x"), "so is one without an error");
    is_int(-1, sim_report(&s, 2, 1, 1, 4), "and a report that waits for rank 4 of 4");
    is_int(-1, sim_say(&s, 2, HP_JOIN, "x", 1), "and a second JOIN");
    sim_close(&s);
}

static void
test_leave(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, 4, 2);
    sim_report(&s, 1, 16, 1, 3);
    sim_count(&s, 3, HP_LEAVE, 16);
    sim_lose(&s, 3);
    is_int(0, sim_told(&s, 4, -1, HOOP_ERR_PEER_LOST, 3),
           "rank 3 may leave after 16 operations while 1 is still in 16");
    sim_pass(&s, 150);
    sim_report(&s, 1, 17, 1, 0);
    sim_pass(&s, 50);
    is_int(3, sim_told(&s, 4, -1, HOOP_ERR_PEER_LOST, 3), "rank 1 in operation 17 waits in vain: all are told");
    is_string("rank 3 (node2) left the communicator after 16 operations while rank 1 (node1) waits in operation 17",
              s.conns[1].cause.text, "the sentence");
    is_uint(17, s.conns[1].cause.sequence, "the operation");
    sim_close(&s);
    sim_open(&s);
    sim_world(&s, 4, 2);
    sim_report(&s, 1, 17, 1, 0);
    sim_count(&s, 3, HP_LEAVE, 16);
    sim_pass(&s, 50);
    is_int(0, s.conns[0].causes, "the report came first: it may have left because another one has ended");
    sim_pass(&s, 100);
    is_int(3, sim_told(&s, 4, 3, HOOP_ERR_PEER_LOST, 3), "none has");
    sim_close(&s);
    sim_open(&s);
    hp_join one = sim_join_of(0, 1, 1);
    sim_join(&s, 0, &one);
    sim_count(&s, 0, HP_LEAVE, 0);
    sim_lose(&s, 0);
    ok(hp_job_idle(s.job), "a rank may leave before its ring stands");
    sim_close(&s);
}

static void
test_timeout(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, 8, 4);
    for (int i = 0; i < 8; i++)
        if (i != 3)
            sim_report(&s, i, 17, (uint64_t)i, (i + 7) % 8);
    ok(hp_job_timed(s.job), "a ring in an operation needs a timer");
    sim_pass(&s, 1900);
    is_int(0, sim_told(&s, 8, -1, HOOP_ERR_TIMEOUT, 3), "nothing before the time-out");
    sim_pass(&s, 150);
    is_int(8, sim_told(&s, 8, -1, HOOP_ERR_TIMEOUT, 3), "rank 3, who has not come, is named to all, itself too");
    is_string("rank 3 (node1, pid 803) has not entered operation 17, or was stopped; 7 ranks have waited 2.0 s",
              s.conns[0].cause.text, "the sentence");
    is_int(7, s.conns[0].pings > 0 ? 7 : 0, "those in an operation hear the server now and then");
    is_int(1, s.conns[3].pings, "who has not come is asked once");
    sim_close(&s);
}

static void
test_trickle(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, 3, 1);
    for (int k = 0; k < 100; k++) {
        for (int i = 0; i < 3; i++)
            sim_report(&s, i, 1, i == 1 ? (uint64_t)k / 6 : 5, (i + 2) % 3);
        sim_pass(&s, 250);
    }
    is_int(0, s.conns[0].causes, "a step of one rank every 1.5 s keeps the ring alive for 25 s");
    for (int i = 0; i < 3; i++)
        sim_count(&s, i, HP_OUT, 1);
    sim_pass(&s, 60000);
    is_int(0, s.conns[0].causes, "ranks that compute between operations are not timed");
    sim_close(&s);
}

static void
test_stopped(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, 8, 4);
    for (int k = 0; k < 20 && !s.conns[0].causes; k++) {
        for (int i = 0; i < 8; i++)
            if (i != 5 || k < 1)
                sim_report(&s, i, 3, 10 + (uint64_t)(8 - i), (i + 7) % 8);
        sim_pass(&s, 250);
    }
    is_int(8, sim_told(&s, 8, -1, HOOP_ERR_TIMEOUT, 5), "rank 5, stopped in the operation, is named");
    ok(strstr(
           s.conns[0].cause.text,
           "rank 5 (node2, pid 805) is unreachable or stopped; its host last spoke 0.2 s ago; 7 ranks have waited") !=
           NULL,
       "the sentence: %s", s.conns[0].cause.text);
    sim_close(&s);
}

/* Hosts that take nothing: their ranks are named together, and how long they have been silent. */
static void
test_cut_off(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, 8, 2);
    for (int i = 0; i < 8; i++) {
        hp_report report = {.sequence = 17,
                            .step = 3,
                            .awaited = {HP_WAIT_PEER, (i + 7) % 8},
                            .call = {.kind = HP_BARRIER, .root = -1}};
        if (i != 4 && i != 5 && i != 1)
            sim_in_op(&s, i, HP_IN_OP, &report);
    }
    s.conns[4].cut_off = s.conns[5].cut_off = s.conns[1].cut_off = 1;
    sim_pass(&s, 2050);
    is_int(8, sim_told(&s, 8, -1, HOOP_ERR_TIMEOUT, 1), "ranks that are cut off: the first is the error's");
    is_string(
        "ranks 1 and 4-5 (the first on node1) are unreachable or stopped; their hosts last spoke 2.0 s ago; 5 ranks "
        "have waited 2.0 s in operation 17 (barrier)",
        s.conns[0].cause.text, "all are named, and the call");
    sim_close(&s);
}

static void
open_linking(sim *s)
{
    sim_open(s);
    for (int i = 0; i < 4; i++) {
        hp_join join = sim_join_of(i, 4, 1);
        sim_join(s, i, &join);
    }
}

static void
test_links(void)
{
    sim s;
    open_linking(&s);
    for (int i = 0; i < 4; i++)
        if (i != 2)
            sim_say(&s, i, HP_READY, NULL, 0);
    sim_say(&s, 0, HP_READY, NULL, 0);
    sim_pass(&s, 5050);
    is_int(4, sim_told(&s, 4, -1, HOOP_ERR_RENDEZVOUS, 2), "a rank whose links do not stand is named at the time-out");
    ok(strstr(s.conns[0].cause.text, "links of 1 of them are not up (rank 2)") != NULL, "%s", s.conns[0].cause.text);
    is_int(-1, sim_report(&s, 9, 1, 1, 0), "who never joined may not report");
    sim_close(&s);
    open_linking(&s);
    sim_say(&s, 0, HP_READY, NULL, 0);
    sim_pass(&s, 5050);
    is_int(4, sim_told(&s, 4, -1, HOOP_ERR_RENDEZVOUS, -1), "where several are late, none of them is");
    ok(strstr(s.conns[0].cause.text, "links of 3 of them are not up (ranks 1-3)") != NULL, "they are listed: %s",
       s.conns[0].cause.text);
    sim_close(&s);
}

/* Whoever has started the ranks knows whether the awaited one is stopped. */
static void
test_process(void)
{
    char text[256];
    sim s;
    sim_open(&s);
    sim_world(&s, 4, 4);
    sim_report(&s, 0, 17, 1, 3);
    s.held = 3;
    is_string(
        "rank 3 (node1, pid 803) has not entered operation 17: its process is stopped, by a signal or a debugger; 1 "
        "rank has waited 0.5 s",
        sim_late(&s, s.job->rosters, HP_SEC / 2, text, sizeof(text)), "a process that is stopped");
    s.held = 2;
    is_string("rank 3 (node1, pid 803) has not entered operation 17, and its process runs; 1 rank has waited 1.0 s",
              sim_late(&s, s.job->rosters, HP_SEC, text, sizeof(text)), "one that runs");
    is_string("rank 3 (node1, pid 803) has not entered operation 17, or was stopped; 1 rank has waited 0.5 s",
              sim_late(&s, s.job->rosters, HP_SEC / 2, text, sizeof(text)), "which is not known at once");
    s.held = 3;
    sim_report(&s, 3, 17, 1, 2);
    sim_pass(&s, 1900);
    sim_report(&s, 0, 17, 1, 3);
    sim_pass(&s, 200);
    is_string("rank 3 (node1, pid 803) is stopped, by a signal or a debugger, in operation 17; 1 rank has waited 2.0 s",
              s.conns[0].cause.text, "one that was stopped in the operation");
    sim_close(&s);
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    test_peace();
    test_losses();
    test_words();
    test_told_late();
    test_closed();
    test_process();
    test_abort();
    test_leave();
    test_timeout();
    test_trickle();
    test_stopped();
    test_cut_off();
    test_links();
    return 0;
}
