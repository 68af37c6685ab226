/* SPDX-License-Identifier: MIT */
/*
 * vitals: what a server makes of the counters of its ranks (STATS): rates, the rank that is late, the slow link, who is
 * outside hoop, the summary at the end; at 80 columns, and of 64 ranks; and of a rank that floods it.
 */
#include "base/clock.h"
#include "rendezvous/table.h"
#include "t/rendezvous/lines.h"
#include "t/rendezvous/sim.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4 };

static void
print(const sim *s, int most, int width)
{
    const hp_table_options options = {.most = most, .to = {.width = width, .line = keep}};
    forget();
    hp_table_print(s->job, &options, s->now);
}

static int
report(sim *s, int g, const hp_vitals *vitals)
{
    uint8_t bytes[HP_VITALS_BYTES];
    hp_vitals_put(bytes, vitals);
    return sim_say(s, g, HP_STATS, bytes, sizeof(bytes));
}

/* Ranks that have done ten operations a second for so long, and waited for all but `late` for half of the time. */
static hp_vitals
after(uint64_t seconds, int rank, int late)
{
    return (hp_vitals){.at = seconds * HP_SEC,
                       .operations = seconds * 10,
                       .sent = seconds * UINT64_C(1230000000),
                       .received = seconds * UINT64_C(500000000),
                       .waited = {[HP_WAIT_PEER] = rank == late ? 0 : seconds * HP_SEC / 2},
                       .wire_sent = seconds * UINT64_C(1230000000),
                       .retransmits = 7,
                       .most_resent = 7,
                       .most_to = (rank + 1) % RANKS};
}

static void
pass(sim *s, int n, int seconds, int late)
{
    for (int t = 0; t <= seconds; t++) {
        for (int g = 0; g < n; g++) {
            hp_vitals vitals = after((uint64_t)t, g, late);
            if (report(s, g, &vitals))
                bail("counters are no breach of protocol");
        }
        sim_pass(s, t < seconds ? 1000 : 0);
    }
}

static void
test_rates(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, RANKS, 2);
    pass(&s, RANKS, 3, 2);
    print(&s, 100, 0);
    is_string("rank  host   pid  operation  for  waits for  out   in GB/s  waited    resent", lines[1], "the titles");
    is_string("1     node1  801  30 done                    1.23  0.50     50% data  7", lines[3],
              "a rank's bytes, share of time waited, segments sent again");
    is_string("2     node2  802  30 done                    1.23  0.50     0%        7", lines[4],
              "and of the late one");
    is_string("the ring: 0 -> 1 -> 2 -> 3 -> 0", lines[6], "no link of the ring is slow");
    is_string("slowest rank in the last minute: rank 2 (node2), late by 50 ms an operation on average; the others wait "
              "50% of the time for it",
              lines[7], "the late rank, and by how much");
    is_string("slowest rank since the start: rank 2 (node2), late by 50 ms an operation on average; the others wait "
              "50% of the time for it",
              lines[8], "since the start, too");
    is_int(9, count, "and nothing more");
    sim_close(&s);
}

/* Rank 2 has called 80 ms late each time; 0 entries: the clocks were not compared. */
static void
pass_with_clocks(sim *s, uint64_t entries, uint64_t error)
{
    for (int t = 0; t <= 5; t++) {
        for (int g = 0; g < RANKS; g++) {
            hp_vitals vitals = after((uint64_t)t, g, 2);
            vitals.entries = entries * (uint64_t)t;
            vitals.entered = vitals.entries * (7 * HP_SEC + (g == 2 ? 80 * HP_MS : 0));
            vitals.entered_error = vitals.entries * error;
            report(s, g, &vitals);
        }
        sim_pass(s, t < 5 ? 1000 : 0);
    }
}

static void
test_clocks(void)
{
    static const uint64_t error[] = {5 * HP_MS, 50 * HP_MS, 0}, entries[] = {1, 1, 0};
    static const char *const wanted[] = {"late by 80 ms", "late by 50 ms", "late by 50 ms"};
    static const char *const what[] = {"clocks that are known say how late", "their error is more than that",
                                       "the clocks are not known"};
    for (int i = 0; i < 3; i++) {
        sim s;
        sim_open(&s);
        sim_world(&s, RANKS, 2);
        pass_with_clocks(&s, entries[i], error[i]);
        print(&s, 100, 0);
        ok(strstr(line_with("since the start"), wanted[i]) != NULL, "%s: %s", what[i], line_with("since the start"));
        sim_close(&s);
    }
}

/* The clocks of a ring of any size are compared. */
static void
test_many_clocks(void)
{
    enum { MANY = 3000, LATE = 2500 };
    uint8_t bytes[HP_VITALS_BYTES];
    hp_history *all = NULL;
    for (int g = 0; g < MANY; g++) {
        hp_vitals vitals = after(5, g, LATE);
        vitals.entries = 5;
        vitals.entered = 5 * (7 * HP_SEC + (g == LATE ? 80 * HP_MS : 0));
        hp_vitals_put(bytes, &vitals);
        if (!hp_history_take(&all, MANY, g, bytes, sizeof(bytes), HP_SEC))
            bail("counters are no breach of protocol");
    }
    hp_straggler found = hp_straggler_since_start(all, MANY);
    is_int(LATE, found.rank, "the late one of %d ranks", (int)MANY);
    is_int(80, (intmax_t)(found.late * 1000 + 0.5), "and by how many ms, as their clocks say");
    free(all);
}

/* So many seconds more in which none is late, and all report each second. */
static void
pass_in_step(sim *s, uint64_t from, uint64_t seconds)
{
    for (uint64_t t = from + 1; t <= from + seconds; t++) {
        for (int g = 0; g < RANKS; g++) {
            hp_vitals vitals = after(t, g, 1);
            vitals.waited[HP_WAIT_PEER] = after(from, g, 1).waited[HP_WAIT_PEER];
            report(s, g, &vitals);
        }
        sim_pass(s, 1000);
    }
}

/* A rank that was late long ago, and is not any more: the last minute does not name it. */
static void
test_minute(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, RANKS, 2);
    pass(&s, RANKS, 100, 1);
    pass_in_step(&s, 100, 100);
    print(&s, 100, 0);
    is_string("", line_with("last minute"), "who is not late any more is not named");
    ok(strstr(line_with("since the start"), "rank 1 (node1), late by 25 ms"), "but it was: %s",
       line_with("since the start"));
    sim_close(&s);
}

/* A minute ends, also if nothing is reported in it; and what was before it does not count after it. */
static void
test_quiet_minutes(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, RANKS, 2);
    pass(&s, RANKS, 20, 1);
    sim_pass(&s, 45000);
    print(&s, 100, 0);
    ok(strstr(line_with("in the last minute"), "rank 1 (node1), late by 50 ms"), "late in this minute: %s",
       line_with("in the last minute"));
    sim_pass(&s, 3600000);
    print(&s, 100, 0);
    is_string("", line_with("last minute"), "an hour later that rank is not named");
    ok(strstr(line_with("since the start"), "rank 1 (node1), late by 50 ms"), "but since the start: %s",
       line_with("since the start"));
    for (uint64_t t = 0; t <= 5; t++) {
        for (int g = 0; g < RANKS; g++) {
            hp_vitals vitals = after(20 + t, g, 2);
            vitals.at += 3645 * HP_SEC;
            vitals.waited[HP_WAIT_PEER] = after(20, g, 1).waited[HP_WAIT_PEER] + after(t, g, 2).waited[HP_WAIT_PEER];
            report(&s, g, &vitals);
        }
        sim_pass(&s, 1000);
    }
    print(&s, 100, 0);
    ok(strstr(line_with("in the last minute"),
              "rank 2 (node2), late by 50 ms an operation on average; the others wait 50% of the time"),
       "the hour of rest dilutes nothing: %s", line_with("in the last minute"));
    sim_close(&s);
}

/* Three reports of each rank, a second apart; rank `slow` has waited for a quarter of the time for its link. */
static void
report_links(sim *s, uint64_t from, int slow, void (*change)(hp_vitals *vitals, int rank))
{
    for (uint64_t t = from; t <= from + 2; t++) {
        for (int g = 0; g < RANKS; g++) {
            hp_vitals vitals = after(t, g, -1);
            vitals.waited[HP_WAIT_LINK] = g == slow ? vitals.at / 4 : 0;
            change(&vitals, g);
            report(s, g, &vitals);
        }
        sim_pass(s, t < from + 2 ? 1000 : 0);
    }
}

static void
far_away(hp_vitals *vitals, int rank)
{
    vitals->delivery_rate = rank == 1 ? 120000000 : 3000000000;
    vitals->rtt = rank == 1 ? 40100 : 50;
}

/* Rank k sends most to rank k of the other host, and the rest through memory; rank 1 sends all so. */
static void
over_levels(hp_vitals *vitals, int rank)
{
    vitals->levels = vitals->operations / 2;
    vitals->most_to = rank == 1 ? -1 : (rank + 2) % RANKS;
    vitals->delivery_rate = rank == 1 ? 0 : 120000000;
    vitals->wire_sent = rank == 1 ? 0 : vitals->sent / 8;
    vitals->most_resent = 5;
}

/* One byte once, and all else through memory. */
static void
hardly_over_tcp(hp_vitals *vitals, int rank)
{
    vitals->most_to = (rank + 2) % RANKS;
    vitals->delivery_rate = rank == 3 ? 10 : 120000000;
    vitals->wire_sent = 1;
}

static void
test_slow_link(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, RANKS, 2);
    report_links(&s, 0, 1, far_away);
    print(&s, 100, 0);
    is_string("the ring: 0 -> 1 =slow=> 2 -> 3 -> 0", line_with("the ring:"), "the slow link is marked");
    is_string("slowest link: rank 1 (node1) to rank 2 (node2), 120.00 MB/s, round trip 40.10 ms, 7 segments sent "
              "again, waited for 25% of the time",
              line_with("slowest link"), "and explained");
    for (int g = 0; g < RANKS; g++) {
        hp_vitals vitals = after(100, g, -1);
        vitals.delivery_rate = g == 3 ? 900 : 2000;
        report(&s, g, &vitals);
    }
    print(&s, 100, 0);
    is_string("the ring: 0 -> 1 -> 2 -> 3 =slow=> 0", line_with("the ring:"),
              "where none waits for a link, it is one with less than half of the others' rate");
    sim_close(&s);
}

/* All ranks are alive and wait for each other: the link on which nothing comes is the slow one. */
static void
test_blocked_link(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, RANKS, 2);
    pass(&s, RANKS, 2, -1);
    for (int i = 0; i < 6; i++) {
        for (int g = 0; g < RANKS; g++)
            sim_report(&s, g, 21, g == 3 ? 1 : 2, (g + 3) % RANKS);
        sim_pass(&s, 250);
    }
    print(&s, 100, 0);
    ok(strstr(lines[0], "so look at the network between them"), "two ranks that are alive: %s", lines[0]);
    is_string("the ring: 0 -> 1 -> 2 =slow=> 3 -> 0", line_with("the ring:"), "the link between them is marked");
    sim_close(&s);
}

static void
test_levels(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, RANKS, 2);
    report_links(&s, 0, 0, over_levels);
    print(&s, 100, 0);
    is_string("two levels: node1 (ranks 0-1), node2 (ranks 2-3)", line_with("two levels"), "the hosts and their ranks");
    is_string("slowest link: rank 0 (node1) to rank 2 (node2), 120.00 MB/s, 5 segments sent again, waited for 25% of "
              "the time",
              line_with("slowest link"), "the slow link leads to where most goes");
    is_string("the ring: 0 -> 1 -> 2 -> 3 -> 0", line_with("the ring:"), "and is none of the ring's");
    ok(strstr(lines[3], "% data  memory") && strstr(lines[4], "% data  7"), "a rank that sends nothing over TCP: %s",
       lines[3]);
    report_links(&s, 3, 0, hardly_over_tcp);
    print(&s, 100, 0);
    is_string("slowest link: rank 0 (node1) to rank 1 (node1), waited for 25% of the time", line_with("slowest link"),
              "a rank that hardly uses TCP waits for the next one of the ring");
    hp_vitals vitals = after(6, 0, -1);
    vitals.most_to = RANKS;
    ok(report(&s, 0, &vitals), "no rank sends to one that the ring does not have");
    sim_close(&s);
}

static void
test_outside(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, RANKS, 2);
    pass(&s, RANKS, 2, -1);
    sim_pass(&s, 12000);
    for (int g = 0; g < 3; g++)
        sim_report(&s, g, 21, 1, 3);
    sim_pass(&s, 1000);
    print(&s, 100, 0);
    is_string("3     node2  803  outside hoop, not in 21  13 s                     0.00  0.00     0%      7", lines[5],
              "the rank that is waited for computes");
    for (int g = 0; g < 3; g++)
        sim_count(&s, g, HP_OUT, 21);
    sim_pass(&s, 5000);
    print(&s, 100, 0);
    is_string("0     node1  800  outside hoop  5 s              0.00  0.00     0%      7", lines[2],
              "OUT begins a time outside");
    sim_close(&s);
}

/* 64 ranks on a terminal of 80 columns: nothing is wider, the late rank is among the few that are shown. */
/* Ranks with the longest hosts, numbers and waits that they may have. */
static void
open_wide_world(sim *s, int n)
{
    sim_open(s);
    for (int g = 0; g < n; g++) {
        hp_join join = sim_join_of(g, n, 8);
        snprintf(join.member.host, sizeof(join.member.host), "compute-%03d", g / 8);
        join.member.pid = 4194000 + (uint32_t)g % 304;
        sim_join(s, g, &join);
    }
    for (int g = 0; g < n; g++)
        sim_say(s, g, HP_READY, NULL, 0);
}

/* All lines fit; the rank that is late is among the rows, and the others are counted. */
static void
check_width(const sim *s, int most, int rows, const char *late)
{
    size_t widest = 0;
    int shown = 0;
    print(s, most, 80);
    for (int i = 0; i < count; i++) {
        widest = strlen(lines[i]) > widest ? strlen(lines[i]) : widest;
        shown += lines[i][0] >= '0' && lines[i][0] <= '9';
    }
    ok(widest <= 80, "the widest line has %zu characters", widest);
    is_int(rows, shown, "rows");
    ok(strncmp(line_with(late), late, strlen(late)) == 0, "the late rank is shown: %s", line_with(late));
    ok(strncmp(line_with("the ring:"), "the ring: .. ", 13) == 0, "a part of the ring: %s", line_with("the ring:"));
}

static void
test_narrow(void)
{
    enum { N = 64 };
    sim s;
    sim_open(&s);
    sim_world(&s, N, 8);
    pass(&s, N, 3, 41);
    for (int g = 0; g < N; g++)
        sim_report(&s, g, 31, 1, (g + N - 1) % N);
    check_width(&s, 5, 5, "41 ");
    ok(strncmp(line_with("0%   "), "41 ", 3) == 0, "with its counters: %s", line_with("0%   "));
    sim_close(&s);
}

/* 512 ranks on a screen of 24 lines, and all of them. */
static void
test_many(void)
{
    enum { N = 512, LATE = 341 };
    static sim s;
    open_wide_world(&s, N);
    pass(&s, N, 3, LATE);
    for (int g = 0; g < N; g++)
        if (g != LATE)
            sim_report(&s, g, 31234567, 1, (g + N - 1) % N);
    sim_pass(&s, 900);
    check_width(&s, 13, 13, "341  compute-042");
    ok(count <= 23, "on %d lines", count);
    is_string("and 499 more ranks: 499 in an operation, 0 in none that lasts", line_with("more ranks"),
              "and the others");
    ok(strstr(lines[0], "ring of 512 ranks: rank 341 (compute-042, pid"), "the sentence: %s", lines[0]);
    check_width(&s, 100000, N, "341  compute-042");
    sim_close(&s);
}

/* One slot a rank, whatever it sends; and what it sends must be counters. */
static void
test_flood(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, RANKS, 2);
    pass(&s, RANKS, 2, -1);
    const hp_history *slots = s.job->rosters->histories;
    hp_vitals vitals = after(2, 1, -1);
    for (int i = 0; i < 100000; i++) {
        vitals.at += 10000; /* a second in all */
        vitals.sent += 12300;
        report(&s, 1, &vitals);
    }
    ok(slots && slots == s.job->rosters->histories, "100000 reports of a rank take no memory");
    hp_rates rates = hp_history_rates(&slots[1], HP_SPAN_MOMENT, s.now);
    ok(rates.sent > 1.2e9 && rates.sent < 1.25e9, "nor do they change its rate: %g bytes/s", rates.sent);
    vitals.sent = 0;
    vitals.at += HP_SEC;
    report(&s, 1, &vitals);
    is_int(0, (intmax_t)hp_history_rates(&slots[1], HP_SPAN_MOMENT, s.now).sent, "a counter that shrinks is no rate");
    sim_close(&s);
}

static void
test_summary(void)
{
    char text[400];
    const hp_line_sink out = {.line = keep};
    sim s;
    sim_open(&s);
    sim_world(&s, RANKS, 2);
    count = 0;
    hp_summary_print(s.job->rosters, &out);
    is_int(0, count, "ranks that have reported nothing: no summary");
    pass(&s, RANKS, 10, 3);
    hp_summary_print(s.job->rosters, &out);
    is_string("ring of 4 ranks: 100 operations, 49.20 GB sent in 10.0 s, 1.23 GB/s a rank", lines[0], "the work");
    is_string(
        "waited 37.5% for data of other ranks, 0.0% for other ranks to take data, 0.0% for a CUDA stream, 0.0% for "
        "the ranks' own devices",
        lines[1], "the time waited");
    ok(strstr(lines[2], "slowest rank since the start: rank 3 "), "the slowest rank: %s", lines[2]);
    is_int(3, count, "and nothing more");
    sim_say(&s, 1, HP_NAME, "dp", 2);
    count = 0;
    hp_summary_print(s.job->rosters, &out);
    ok(strncmp(lines[0], "ring \"dp\" of 4 ranks: 100 operations", 36) == 0, "a ring with a name: %s", lines[0]);
    is_int(0, s.ended, "the ring is not over");
    const hp_slow_link once = {.from = 1, .to = 2, .retransmits = 1, .measured = 1};
    ok(strstr(hp_summary_link(s.job->rosters, &once, text, sizeof(text)), " 1 segment sent again"), "%s", text);
    for (int g = 0; g < RANKS; g++)
        sim_count(&s, g, HP_LEAVE, 100);
    for (int g = 0; g < RANKS; g++)
        sim_lose(&s, g);
    sim_pass(&s, 100);
    is_int(1, s.ended, "its end is told once");
    sim_close(&s);
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    test_rates();
    test_clocks();
    test_many_clocks();
    test_minute();
    test_quiet_minutes();
    test_slow_link();
    test_blocked_link();
    test_levels();
    test_outside();
    test_narrow();
    test_many();
    test_flood();
    test_summary();
    return tap_failures() != 0;
}
