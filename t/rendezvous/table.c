/* SPDX-License-Identifier: MIT */
/* table: the lines that a user sees of a job: who is in which operation, for how long, and for whom it waits. */
#include "rendezvous/table.h"

#include "base/clock.h"
#include "base/err.h"
#include "t/rendezvous/lines.h"
#include "t/rendezvous/sim.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <string.h>

static void
print(const sim *s, int most)
{
    const hp_table_options options = {.most = most, .to.line = keep};
    forget();
    hp_table_print(s->job, &options, s->now);
}

static void
test_quiet(void)
{
    sim s;
    sim_open(&s);
    print(&s, 100);
    is_int(0, count, "a job without a ring has no line");
    sim_world(&s, 3, 2);
    print(&s, 100);
    is_int(5, count, "a ring of 3: a sentence, titles, 3 rows");
    is_string("job 4f21c0de, ring of 3 ranks: no operation lasts", lines[0], "the sentence of a ring at peace");
    is_string("rank  host   pid  operation        for  waits for", lines[1], "the titles");
    is_string("2     node2  802  none that lasts", lines[4], "a row, without blanks at its end");
    is_int(0, (intmax_t)hp_table_stalled(s.job, s.now), "nothing waits");
    sim_close(&s);
}

static void
test_wait(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, 4, 2);
    sim_report(&s, 0, 17, 3, 3);
    sim_report(&s, 1, 17, 3, 0);
    print(&s, 100);
    is_string("job 4f21c0de, ring of 4 ranks: it makes progress", lines[0], "two ranks have just entered: no blame");
    sim_count(&s, 2, HP_OUT, 17);
    sim_pass(&s, 700);
    sim_report(&s, 0, 17, 3, 3);
    sim_pass(&s, 300);
    print(&s, 100);
    is_string("job 4f21c0de, ring of 4 ranks: rank 3 (node2, pid 803) has not entered operation 17, or was stopped; 2 "
              "ranks have waited 1.0 s",
              lines[0], "who is waited for");
    is_string("0     node1  800  17               0.3 s  data from rank 3", lines[2], "a rank that waits");
    is_string("2     node2  802  none that lasts", lines[4], "one that has finished that operation");
    is_string("3     node2  803  not in 17", lines[5], "the one that is awaited");
    is_int(1000, (intmax_t)(hp_table_stalled(s.job, s.now) / 1000000), "for how long nothing has moved, in ms");
    sim_close(&s);
}

/* A ring of four ranks, and a split of ranks 2 and 3, connections 12 and 13. */
static void
open_rings(sim *s, uint64_t op_timeout)
{
    sim_ring(s, 4, 2, op_timeout);
    sim_split(s, 10, 2, op_timeout);
}

/* Ranks 0 and 1 wait for 2, which waits for 3 in a split of those two. */
static void
test_elsewhere(void)
{
    sim s;
    open_rings(&s, 2 * HP_SEC);
    for (int k = 0; k < 5; k++) {
        sim_report(&s, 0, 17, 3, 1);
        sim_report(&s, 1, 17, 3, 2);
        sim_report(&s, 12, 1, 0, 1);
        sim_pass(&s, 250);
    }
    print(&s, 100);
    is_string(
        "job 4f21c0de split 1 colour 0, split of 2 ranks: rank 1 (node2, pid 803) has not entered operation 1, or was "
        "stopped; 1 rank has waited 1.2 s",
        lines[0], "the split waits for its rank 1");
    is_string(
        "job 4f21c0de, ring of 4 ranks: rank 2 (node2, pid 802) waits in operation 1 of split 1 colour 0 for rank 3 "
        "(node2, pid 803), which has not entered it, or was stopped; 2 ranks have waited 1.2 s in operation 17",
        lines[4], "and the ring for the same process");
    is_string("2     node2  802  not in 17, waits in split 1 colour 0  1.2 s", lines[8],
              "where the rank between them is");
    is_string("3     node2  803  not in 17", lines[9], "and the one that is to blame");
    sim_close(&s);
}

/* Ranks 2 and 3 both wait in the split, which has a name. */
static void
test_both_elsewhere(void)
{
    sim s;
    open_rings(&s, 60 * HP_SEC);
    sim_say(&s, 13, HP_NAME, "tp", 2);
    for (int k = 0; k < 100; k++) {
        sim_report(&s, 0, 17, 3, 1);
        sim_report(&s, 1, 17, 3, 2);
        sim_report(&s, 12, 1, 0, 1);
        sim_report(&s, 13, 1, 0, 0);
        sim_pass(&s, 250);
    }
    print(&s, 100);
    is_string("2     node2  802  not in 17, waits in \"tp\"  25.0 s", line_with("802  not"),
              "by its name, if it has one");
    is_string("3     node2  803  not in 17, waits in \"tp\"  25.0 s", line_with("803  not"),
              "also a rank that is not to blame");
    sim_close(&s);
}

/* Ranks 2 and 3 report nothing, and their host takes nothing. */
static void
test_cut_off(void)
{
    sim s;
    open_rings(&s, 60 * HP_SEC);
    s.conns[2].cut_off = s.conns[3].cut_off = 1;
    for (int k = 0; k < 12; k++) {
        sim_report(&s, 0, 17, 3, 3);
        sim_report(&s, 1, 17, 3, 3);
        sim_pass(&s, 250);
        if (k == 6)
            print(&s, 100);
    }
    is_string("2     node2  802  not in 17", lines[4], "for two seconds a rank may be late");
    is_int(1, s.conns[2].pings, "one that is absent is asked once");
    print(&s, 100);
    is_string(
        "job 4f21c0de, ring of 4 ranks: ranks 2-3 (node2) are unreachable or stopped; their host last spoke 3.0 s "
        "ago; 2 ranks have waited 3.0 s in operation 17",
        lines[0], "then it is known that its host takes nothing");
    is_string("2     node2  802  unreachable, not in 17", lines[4], "and shown");
    s.conns[2].cut_off = s.conns[3].cut_off = 0;
    print(&s, 100);
    is_string("2     node2  802  not in 17", lines[4], "until it takes something again");
    sim_close(&s);
}

static void
test_name(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, 2, 2);
    is_int(0, sim_say(&s, 1, HP_NAME, "dp", 2), "a rank names the ring");
    print(&s, 100);
    is_string("job 4f21c0de \"dp\", ring of 2 ranks: no operation lasts", lines[0], "its sentence has the name");
    sim_say(&s, 0, HP_NAME, "tp", 2);
    sim_abort(&s, 0, HOOP_ERR_ABORTED, 0, "enough");
    is_string("job 4f21c0de \"tp\": failed: enough", s.line, "the last name counts, also in lines");
    is_int(-1, sim_say(&s, 1, HP_NAME, "a\nb", 3), "a name with a newline is a breach of protocol");
    sim_close(&s);
}

/* Rank g is in an allreduce, as operation 17, whose name has this number. */
static void
say_in_op(sim *s, int g, int number)
{
    hp_report r = {.sequence = 17, .awaited = {HP_WAIT_PEER, 2}, .call_name = number};
    r.call = (hp_call){.kind = HP_ALLREDUCE, .dtype = HOOP_FLOAT32, .op = HOOP_SUM, .root = -1, .count = 100};
    if (sim_in_op(s, g, HP_IN_OP, &r) != 0)
        bail("a report is refused");
}

/* Ranks 0 and 1 give one name different numbers. */
static void
test_call_names(void)
{
    sim s;
    hp_unstarted refused = {.sequence = 17, .call_name = 1, .call = {.kind = HP_ALLREDUCE}};
    uint8_t bytes[HP_UNSTARTED_BYTES];
    sim_open(&s);
    sim_world(&s, 3, 2);
    is_int(0, sim_say(&s, 0, HP_CALL_NAME, "\1gradients", 10), "a rank names calls");
    is_int(0, sim_say(&s, 1, HP_CALL_NAME, "\2gradients", 10) + sim_say(&s, 1, HP_CALL_NAME, "\2loss", 5),
           "and another");
    say_in_op(&s, 0, 1);
    say_in_op(&s, 1, 2);
    sim_pass(&s, 800);
    print(&s, 100);
    is_string("job 4f21c0de, ring of 3 ranks: rank 2 (node2, pid 802) has not entered allreduce 17 (gradients), or was "
              "stopped; 2 ranks have waited 0.8 s",
              lines[0], "the sentence has the name");
    is_string("0     node1  800  allreduce 17 (gradients)  0.8 s  data from rank 2", lines[2],
              "so has the row of a rank");
    is_string("1     node1  801  allreduce 17 (gradients)  0.8 s  data from rank 2", lines[3],
              "the first name with a number stays");
    say_in_op(&s, 0, 3);
    print(&s, 100);
    is_string("0     node1  800  17 allreduce of 100 x float32, sum  0.0 s  data from rank 2", lines[2],
              "a number without a name is none");
    is_int(0, sim_say(&s, 2, HP_CALL_NAME, "\1loss", 5), "a third rank");
    hp_err_set(&refused.cause, HOOP_ERR_INVALID_ARGUMENT, "sendbuf is NULL");
    is_int(0, sim_say(&s, 2, HP_UNSTARTED, bytes, hp_unstarted_put(bytes, &refused)), "could not start a call");
    sim_pass(&s, 1100);
    is_string("job 4f21c0de: failed: rank 2 (node2) could not start allreduce 17 (loss): sendbuf is NULL", s.line,
              "that has its name, too");
    is_int(-1, sim_say(&s, 1, HP_CALL_NAME, "\3a\nb", 4), "a name with a newline is a breach of protocol");
    sim_close(&s);
}

static void
test_gone(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, 4, 2);
    sim_count(&s, 1, HP_LEAVE, 16);
    print(&s, 100);
    is_string("1     node1  801  left after 16", lines[3], "a rank that has left");
    sim_lose(&s, 2);
    sim_pass(&s, 100);
    print(&s, 100);
    is_string(
        "job 4f21c0de, ring of 4 ranks: failed: rank 2 (node2, pid 802) vanished: its process ended or its connection "
        "broke",
        lines[0], "a ring that has failed");
    is_string("2     node2  802  its connection is lost", lines[4], "and the rank that is gone");
    sim_close(&s);
}

static void
test_many(void)
{
    enum { N = 64, LATE = 41 };
    sim s;
    sim_open(&s);
    sim_world(&s, N, 8);
    for (int i = 0; i < N; i++)
        if (i != LATE)
            sim_report(&s, i, 5, 1, LATE);
    sim_pass(&s, 900);
    print(&s, 10);
    is_int(13, count, "of 64 ranks 10 are shown");
    is_string("41    node6  841  not in 5", lines[2], "the awaited one comes first");
    is_string("8     node2  808  5          0.9 s  data from rank 41", lines[11],
              "then the first ones that wait, in order");
    is_string("and 54 more ranks: 54 in an operation, 0 in none that lasts", lines[12], "the others are counted");
    sim_close(&s);
}

/* Ten lines at 58 columns: the sentence takes three, and the last rank, which is awaited, is not the one that is lost. */
static void
test_few_lines(void)
{
    enum { N = 7 };
    const hp_table_options options = {.most = 10, .lines = 10, .to = {.width = 58, .line = keep}};
    sim s;
    sim_open(&s);
    sim_world(&s, N, 8);
    for (int t = 0; t < 6; t++) {
        for (int i = 0; i < N - 1; i++)
            sim_report(&s, i, 1234567, 1, N - 1);
        sim_pass(&s, 250);
    }
    count = 0;
    hp_table_print(s.job, &options, s.now);
    is_int(10, count, "ten lines");
    ok(strncmp(lines[2], "  ", 2) == 0 && strncmp(lines[3], "rank ", 5) == 0, "three of the sentence: %s", lines[2]);
    ok(strncmp(lines[4], "6 ", 2) == 0 && strstr(lines[4], "not in 1234567"), "the first row: %s", lines[4]);
    is_string("and 2 more ranks: 2 in an operation, 0 in none that lasts", lines[9], "the others are counted");
    sim_close(&s);
}

/* The world waits, and its split, which is younger, does not. */
static void
test_order(void)
{
    enum { N = 2, SPLIT = 20 };
    sim s;
    sim_open(&s);
    sim_world(&s, N, 2);
    for (int i = 0; i < N; i++) {
        hp_join join = sim_join_of(-1, 0, 2);
        join.parent = s.conns[i].ring.comm;
        join.split = 1;
        join.parent_rank = i;
        join.parent_size = N;
        sim_join(&s, SPLIT + i, &join);
    }
    for (int i = 0; i < N; i++)
        sim_say(&s, SPLIT + i, HP_READY, NULL, 0);
    print(&s, 100);
    const char *split = strstr(lines[0], ", split of 2 ranks: ") ? lines[0] : lines[4];
    ok(count == 8 && strstr(split, ", split of 2 ranks: no operation lasts"), "two rings at peace: %s", split);
    sim_report(&s, SPLIT, 5, 1, 1);
    sim_pass(&s, 1100);
    print(&s, 100);
    ok(strstr(lines[0], ", split of 2 ranks: rank 1 (node1, pid 799) has not entered operation 5"),
       "the one that waits comes first: %s", lines[0]);
    sim_count(&s, SPLIT, HP_OUT, 5);
    sim_report(&s, 0, 6, 1, 1);
    sim_pass(&s, 1100);
    print(&s, 100);
    ok(strstr(lines[0], ", ring of 2 ranks: rank 1 (node1, pid 801) has not entered operation 6"),
       "be it the one or the other: %s", lines[0]);
    sim_close(&s);
}

static void
test_start(void)
{
    sim s;
    sim_open(&s);
    for (int i = 0; i < 3; i++) {
        hp_join join = sim_join_of(i, 4, 2);
        sim_join(&s, i, &join);
    }
    sim_pass(&s, 1500);
    print(&s, 100);
    is_int(1, count, "a world that is not complete is one line");
    is_string("job 4f21c0de, ring of 4 ranks: 3 joined it, rank 3 is missing after 1.5 s", lines[0],
              "it names who is missing");
    hp_join join = sim_join_of(3, 4, 2);
    sim_join(&s, 3, &join);
    sim_say(&s, 2, HP_READY, NULL, 0);
    print(&s, 100);
    is_string("job 4f21c0de, ring of 4 ranks: 1 of them are connected to their peers", lines[0], "links come up");
    is_string("2     node2  802  is connected", lines[4], "a rank that is connected");
    is_string("3     node2  803  connects to its peers", lines[5], "and one that is not yet");
    sim_close(&s);
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    test_quiet();
    test_wait();
    test_elsewhere();
    test_both_elsewhere();
    test_cut_off();
    test_name();
    test_call_names();
    test_gone();
    test_many();
    test_few_lines();
    test_order();
    test_start();
    return tap_failures() != 0;
}
