/* SPDX-License-Identifier: MIT */
/*
 * rank_row: what a rank does that waits in a message, in a split, for its stream or its own GPU, or that works in another
 * communicator: its row, the sentences, and the verdicts.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/wire.h"
#include "rendezvous/table.h"
#include "t/rendezvous/lines.h"
#include "t/rendezvous/sim.h"
#include "t/tap/tap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void
print(const sim *s, int most)
{
    const hp_table_options options = {.most = most, .to.line = keep};
    forget();
    hp_table_print(s->job, &options, s->now);
}

/* Connection g waits in a recv from `peer`, since so many ms, or with operation 17 for its stream; kind 0: no longer. */
static void
say_waiting(sim *s, int g, int kind, int peer, int ms)
{
    uint8_t bytes[HP_WAITING_BYTES];
    hp_waiting w = {.since = (uint64_t)ms * HP_MS, .awaited = {peer < 0 ? HP_WAIT_STREAM : HP_WAIT_PEER, peer}};
    w.sequence = kind == HP_ALLREDUCE ? 17 : 0;
    w.call = (hp_call){.kind = (uint8_t)kind, .dtype = HOOP_FLOAT32, .root = kind == HP_RECV ? 3 : -1, .count = 5};
    hp_waiting_put(bytes, &w);
    if (sim_say(s, g, HP_WAITING, bytes, sizeof(bytes)))
        bail("a wait is refused");
}

static void
test_message_alone(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, 3, 2);
    say_waiting(&s, 0, HP_RECV, 2, 1500);
    print(&s, 100);
    is_string("job 4f21c0de, ring of 3 ranks: rank 0 (node1) waits in recv of 5 x float32 (tag 3) from rank 2 (node2), "
              "which has not sent it; 1.5 s so far",
              lines[0], "a job that hangs in a message alone");
    is_string("0     node1  800  recv of 5 x float32 (tag 3)  1.5 s  data from rank 2", lines[2],
              "the rank that waits");
    is_uint(1500 * HP_MS, hp_table_stalled(s.job, s.now), "for how long");
    sim_pass(&s, 500);
    print(&s, 100);
    ok(strstr(lines[2], "  2.0 s  data"), "time goes on: %s", lines[2]);
    say_waiting(&s, 0, 0, -1, 0);
    print(&s, 100);
    is_string("0     node1  800  none that lasts", lines[2], "it goes on");
    is_uint(0, hp_table_stalled(s.job, s.now), "nothing waits");
    sim_close(&s);
}

/* Both ends tell of one connection, and one of another. The sentences have it once nothing moves. */
static void
test_connects_again(void)
{
    static const char one[] = "; the connection between rank 0 and rank 2 is being made again";
    static const char two[] = "; 2 connections are being made again, one of them between rank 0 and rank 2";
    uint8_t found[HP_FOUND_BYTES];
    char text[256];
    sim s;
    sim_open(&s);
    sim_world(&s, 3, 2);
    for (int g = 0; g < 3; g++)
        sim_report(&s, g, 17, 1, (g + 2) % 3);
    sim_repairs(&s, 0, 2, ECONNRESET, 17);
    print(&s, 100);
    ok(strstr(lines[2], "  rank 2 is being connected again"), "a connection that is made again: %s", lines[2]);
    ok(strstr(lines[3], "  data from rank 0"), "the others wait as before: %s", lines[3]);
    ok(!strstr(lines[0], one), "it may be there at once: %s", lines[0]);
    for (int k = 0; k < 6; k++) {
        sim_pass(&s, 250);
        for (int g = 0; g < 3; g++)
            sim_report(&s, g, 17, 1, (g + 2) % 3);
    }
    sim_repairs(&s, 2, 0, ECONNRESET, 17);
    print(&s, 100);
    ok(strstr(lines[0], one), "a second later the sentence has it, too: %s", lines[0]);
    ok(strstr(sim_late(&s, s.job->rosters, s.now - s.job->rosters->moved, text, sizeof(text)), one),
       "and the warning: %s", text);
    sim_repairs(&s, 1, 2, ECONNRESET, 17);
    print(&s, 100);
    ok(strstr(lines[0], two), "a second one: %s", lines[0]);
    hp_put32(found, 2);
    ok(sim_say(&s, 1, HP_FOUND, found, sizeof(found)) == 0 && sim_say(&s, 0, HP_FOUND, found, sizeof(found)) == 0,
       "they are there");
    hp_put32(found, 0);
    ok(sim_say(&s, 2, HP_FOUND, found, sizeof(found)) == 0, "for both ends");
    print(&s, 100);
    ok(strstr(lines[2], "  data from rank 2") && !strstr(lines[0], "made again"), "and the rank waits for data: %s",
       lines[2]);
    sim_close(&s);
}

/* Ranks 0 and 1 wait for 2, which waits for 3 in a message. */
static void
test_message_in_chain(void)
{
    static const char chain[] = "rank 2 (node2, pid 802) waits in recv of 5 x float32 (tag 3) of the whole job for "
                                "rank 3 (node2, pid 803), which "
                                "has not sent it, or was stopped; 2 ranks have waited 1.2 s in operation 17";
    char line[LINE];
    sim s;
    sim_open(&s);
    sim_world(&s, 4, 2);
    for (int k = 0; k < 5; k++) {
        sim_report(&s, 0, 17, 3, 1);
        sim_report(&s, 1, 17, 3, 2);
        say_waiting(&s, 2, HP_RECV, 3, 250 * k);
        sim_pass(&s, 250);
    }
    print(&s, 100);
    snprintf(line, sizeof(line), "job 4f21c0de, ring of 4 ranks: %s", chain);
    is_string(line, lines[0], "the sentence leads to the end");
    is_string("2     node2  802  not in 17, recv of 5 x float32 (tag 3)  1.2 s  data from rank 3", lines[4],
              "the rank between them");
    is_string("3     node2  803  not in 17", lines[5], "the one that is to blame");
    for (int k = 5; k < 10; k++) {
        sim_report(&s, 0, 17, 3, 1);
        sim_report(&s, 1, 17, 3, 2);
        say_waiting(&s, 2, HP_RECV, 3, 250 * k);
        sim_pass(&s, 250);
    }
    ok(s.conns[0].cause.code == HOOP_ERR_TIMEOUT && s.conns[0].cause.rank == 3 &&
           strstr(s.conns[0].cause.text, "for rank 3 (node2, pid 803), which has not sent it"),
       "the verdict has it, too: %s", s.conns[0].cause.text);
    sim_close(&s);
}

/* Rank 2 asks for the cause, or, without the flag, knows it. */
static void
time_out(sim *s, int flags)
{
    uint8_t bytes[HP_ABORT_BYTES];
    hoop_error error;
    hp_err_set(&error, HOOP_ERR_TIMEOUT, "rank 2 waits for rank 3");
    error.rank = 3;
    error.flags = flags;
    sim_say(s, 2, HP_ABORT, bytes, hp_abort_put(bytes, &error));
}

/* The message of rank 2 times out: rank 3, which it names, waits for rank 1. */
static void
test_message_times_out(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, 4, 2);
    say_waiting(&s, 2, HP_RECV, 3, 2000);
    say_waiting(&s, 3, HP_RECV, 1, 1900);
    time_out(&s, HOOP_ERROR_BEST_EFFORT);
    is_int(4, sim_told(&s, 4, -1, HOOP_ERR_TIMEOUT, 1), "all ranks hear who is at the end of the chain");
    is_string(
        "rank 3 (node2, pid 803) waits in recv of 5 x float32 (tag 3) of the whole job for rank 1 (node1, pid 801), "
        "which has not sent it, or was stopped; rank 2 has waited 2.0 s for rank 3",
        s.conns[2].cause.text, "in one sentence");
    sim_close(&s);
    sim_open(&s);
    sim_world(&s, 4, 2);
    say_waiting(&s, 2, HP_RECV, 3, 2000);
    time_out(&s, HOOP_ERROR_BEST_EFFORT);
    is_int(4, sim_told(&s, 4, -1, HOOP_ERR_TIMEOUT, 3), "where it ends with rank 3, the words of rank 2 are enough");
    is_string("rank 2 waits for rank 3", s.conns[0].cause.text, "and stay");
    is_int(0, s.conns[2].cause.flags, "and rank 2 hears that they are right");
    sim_close(&s);
    sim_open(&s);
    sim_world(&s, 4, 2);
    say_waiting(&s, 2, HP_RECV, 3, 2000);
    say_waiting(&s, 3, HP_RECV, 1, 1900);
    time_out(&s, 0);
    is_int(3, sim_told(&s, 4, 2, HOOP_ERR_TIMEOUT, 3), "the limit of one wait is what rank 2 says");
    sim_close(&s);
}

/* Of a ring of four ranks, connection 20 + rank joins its split number 1. */
static void
join_split(sim *s, int rank)
{
    hp_join join = sim_join_of(-1, 0, 2);
    join.parent = s->conns[0].ring.comm;
    join.split = 1;
    join.parent_rank = rank;
    join.parent_size = 4;
    join.patience = 8000;
    join.warn_after = 3 * HP_SEC;
    join.member = s->job->rosters->ring.members[rank];
    join.member.rank = -1;
    sim_join(s, 20 + rank, &join);
}

static void
test_split(void)
{
    static const char late[] =
        "rank 3 (node2, pid 803) has not called hoop_comm_split 1 of the whole job, and its process "
        "runs; 3 ranks have waited";
    hp_vitals vitals = {.operations = 6};
    uint8_t bytes[HP_VITALS_BYTES];
    sim s;
    sim_open(&s);
    sim_world(&s, 4, 2);
    s.held = 9; /* the owner knows that all others run */
    hp_vitals_put(bytes, &vitals);
    for (int i = 0; i < 4; i++)
        sim_say(&s, i, HP_STATS, bytes, sizeof(bytes));
    join_split(&s, 0);
    sim_pass(&s, 500);
    join_split(&s, 2);
    join_split(&s, 1);
    print(&s, 100);
    ok(strstr(line_with("  800  "), "  in hoop_comm_split 1  0.5 s  rank 3  "), "a rank in a split: %s",
       line_with("  800  "));
    sim_pass(&s, 2450);
    is_int(0, s.warnings, "no line yet");
    print(&s, 100);
    ok(strstr(lines[0], "job 4f21c0de, split of 4 ranks: ") == lines[0] && strstr(lines[0], late), "who is missing: %s",
       lines[0]);
    ok(strstr(line_with("  801  "), "in hoop_comm_split 1  2.5 s  rank 3"), "it is in hoop: %s", line_with("  801  "));
    ok(strstr(line_with("  803  "), "outside hoop"), "the missing one is not: %s", line_with("  803  "));
    is_uint(2950 * HP_MS, hp_table_stalled(s.job, s.now), "for how long it has waited");
    sim_pass(&s, 50);
    ok(s.warnings == 1 && strstr(s.warning, late) && strstr(s.warning, "waited 3.0 s"), "a line: %s", s.warning);
    say_waiting(&s, 3, HP_RECV, 0, 2000);
    sim_pass(&s, 3000);
    ok(s.warnings == 2 &&
           strstr(s.warning, "rank 3 (node2, pid 803) waits in recv of 5 x float32 (tag 3) of the whole job"),
       "it says where that rank is: %s", s.warning);
    say_waiting(&s, 3, 0, -1, 0);
    join_split(&s, 3);
    is_string("job 4f21c0de: hoop_comm_split 1 goes on after 6.0 s", s.warning, "that it is over");
    for (int i = 20; i < 24; i++)
        sim_say(&s, i, HP_READY, NULL, 0);
    sim_close(&s);
}

/* The split ends by its own time-out, while the missing rank waits for another one in a message. */
static void
test_split_times_out(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, 4, 2);
    for (int i = 0; i < 3; i++)
        join_split(&s, i);
    say_waiting(&s, 3, HP_RECV, 1, 0);
    sim_pass(&s, 8100);
    ok(s.conns[20].cause.code == HOOP_ERR_RENDEZVOUS && strstr(s.conns[20].cause.text, "rank 3 (node2, pid 803) "
                                                                                       "waits in recv"),
       "its error says where the rank is: %s", s.conns[20].cause.text);
    sim_close(&s);
}

/* Rank 2 has called operation 17, and its stream has not reached it. */
static void
test_stream(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, 3, 2);
    for (int k = 0; k < 5; k++) {
        sim_report(&s, 0, 17, 3, 2);
        sim_report(&s, 1, 17, 3, -1);
        say_waiting(&s, 2, HP_ALLREDUCE, -1, 250 * k);
        sim_pass(&s, 250);
    }
    print(&s, 100);
    is_string(
        "job 4f21c0de, ring of 3 ranks: rank 2 (node2, pid 802) has called operation 17 (allreduce of 5 x float32, "
        "sum), and its program's stream has not reached it; 2 ranks have waited 1.2 s",
        lines[0], "it has not entered, and it is known why");
    is_string("1     node1  801  17                                0.2 s  its device", lines[3], "its own reduction");
    is_string("2     node2  802  17 allreduce of 5 x float32, sum  1.2 s  its stream", lines[4], "its stream");
    s.held = 2;
    print(&s, 100);
    ok(strstr(lines[0], "has not entered operation 17: its process is stopped"), "unless its process is stopped: %s",
       lines[0]);
    sim_close(&s);
}

/* Nothing moves, and all wait for their streams: no time-out. */
static void
test_streams_wait(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, 2, 2);
    for (int k = 0; k < 40; k++) {
        say_waiting(&s, 0, HP_ALLREDUCE, -1, 250 * k);
        say_waiting(&s, 1, HP_ALLREDUCE, -1, 250 * k);
        sim_pass(&s, 250);
    }
    is_int(0, s.failures, "ten seconds, and no rank is in an operation");
    print(&s, 100);
    is_string("job 4f21c0de, ring of 2 ranks: no operation lasts", lines[0], "the ring rests");
    sim_close(&s);
}

/* A ring of four ranks, and a split of ranks 2 and 3, connections 12 and 13. */
static void
open_rings(sim *s)
{
    sim_ring(s, 4, 2, 2 * HP_SEC);
    sim_split(s, 10, 2, 2 * HP_SEC);
}

/* Rank 3 reports counters in the split, and none in the world. */
static void
test_works_elsewhere(void)
{
    hp_vitals vitals = {.operations = 6};
    uint8_t bytes[HP_VITALS_BYTES];
    sim s;
    open_rings(&s);
    hp_vitals_put(bytes, &vitals);
    for (int i = 0; i < 4; i++)
        sim_say(&s, i, HP_STATS, bytes, sizeof(bytes));
    for (int k = 0; k < 5; k++) {
        sim_pass(&s, 1000);
        sim_say(&s, 13, HP_STATS, bytes, sizeof(bytes));
    }
    print(&s, 100);
    const char *row = line_with("2     node2  802");
    ok(strstr(row, "outside hoop  5 s"), "a rank that reports nothing: %s", row);
    row = line_with("3     node2  803");
    ok(strstr(row, "  6 done  "), "one that works in another ring is in hoop: %s", row);
    sim_close(&s);
}

/* What a rank has done in its first second is in no report yet. */
static void
test_first_report(void)
{
    const hp_vitals vitals = {.operations = 0};
    uint8_t bytes[HP_VITALS_BYTES];
    sim s;
    open_rings(&s);
    hp_vitals_put(bytes, &vitals);
    sim_say(&s, 0, HP_STATS, bytes, sizeof(bytes));
    print(&s, 100);
    const char *row = line_with("0     node1  800");
    ok(strstr(row, "none that lasts"), "a first report of no operations is no number: %s", row);
    sim_close(&s);
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    test_message_alone();
    test_connects_again();
    test_message_in_chain();
    test_message_times_out();
    test_split();
    test_split_times_out();
    test_stream();
    test_streams_wait();
    test_works_elsewhere();
    test_first_report();
    return tap_failures() != 0;
}
