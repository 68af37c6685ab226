/* SPDX-License-Identifier: MIT */
/*
 * link_loss: one broken connection is one cause, the same for all, whoever notices it first and whoever leaves then; a
 * process that has ended is still named at once; and a rank whose control connection was reset comes back unnoticed.
 */
#include "base/clock.h"
#include "base/err.h"
#include "base/wire.h"
#include "rendezvous/lookout.h"
#include "t/rendezvous/sim.h"
#include "t/tap/tap.h"

#include <errno.h>
#include <string.h>

enum { N = 8 };

static sim s;

static void
start(void)
{
    sim_open(&s);
    sim_world(&s, N, 2);
}

/* 1 if all `n` who are there have been told just this; of 0, whether nobody was told anything. */
static int
all_hear(int n, const char *text)
{
    int told = 0;
    for (int i = 0; i < N; i++)
        told += n ? s.conns[i].present && s.conns[i].causes == 1 && strcmp(s.conns[i].cause.text, text) == 0
                  : s.conns[i].causes;
    if (told != n)
        diag("%d of %d were told; rank 0 heard: %s", told, n, s.conns[0].cause.text);
    return told == n;
}

static void
test_link(void)
{
    start();
    sim_lost(&s, 4, 3, ECONNRESET, 18);
    sim_pass(&s, 50);
    is_int(0, s.conns[0].causes, "one end reports a loss: the server waits a moment");
    sim_lost(&s, 3, 4, 0, 17);
    ok(all_hear(N,
                "the connection between rank 3 (node2) and rank 4 (node3) broke during operation 17: Connection reset "
                "by peer; both processes are alive, so look at the network between them"),
       "so does the other: all are told, at once, with both ends");
    is_int(3, s.conns[0].cause.rank, "the rank is the lower end");
    is_int(4, s.conns[0].cause.reporter, "the reporter the first one");
    is_uint(17, s.conns[0].cause.sequence, "the operation the older one");
    is_int(ECONNRESET, s.conns[0].cause.sys_errno, "with errno");
    for (int i = 0; i < N; i++) {
        sim_count(&s, i, HP_LEAVE, 16);
        sim_lose(&s, i);
    }
    ok(strstr(s.line, "failed: the connection between rank 3") != NULL, "the log's last line: %s", s.line);
    sim_close(&s);
}

/* What two ranks repair is no cause, however long that takes; an end is, and one who left too early. */
static void
test_repaired(void)
{
    uint8_t peer[4];
    hp_put32(peer, 3);
    start();
    sim_repairs(&s, 4, 3, ECONNRESET, 18);
    sim_repairs(&s, 3, 4, 0, 17);
    sim_pass(&s, 20000);
    ok(all_hear(0, ""), "both ends repair their connection: nobody is told anything");
    sim_lost(&s, 5, 6, ECONNRESET, 18);
    sim_lost(&s, 6, 5, ECONNRESET, 18);
    ok(s.conns[0].causes == 1 && strstr(s.conns[0].cause.text, "rank 5"),
       "another one that breaks meanwhile is a cause: %s", s.conns[0].cause.text);
    sim_close(&s);
    start();
    sim_repairs(&s, 4, 3, ECONNRESET, 18);
    sim_lose(&s, 3);
    sim_pass(&s, 1000);
    ok(s.conns[0].causes == 1 && s.conns[0].cause.rank == 3 && strstr(s.conns[0].cause.text, "vanished"),
       "a process that has ended is still named: %s", s.conns[0].cause.text);
    sim_close(&s);
    start();
    sim_count(&s, 3, HP_LEAVE, 16);
    sim_repairs(&s, 4, 3, ECONNRESET, 18);
    sim_pass(&s, 1000);
    ok(s.conns[0].causes == 1 && strstr(s.conns[0].cause.text, "left the communicator"), "and one that has left: %s",
       s.conns[0].cause.text);
    sim_close(&s);
    start(); /* an outage delays what a rank reports until its peer, from which it has everything by now, is gone */
    sim_count(&s, 3, HP_LEAVE, 18);
    sim_repairs(&s, 4, 3, ETIMEDOUT, 18);
    sim_pass(&s, 9000);
    ok(all_hear(0, ""), "not one that left after the operation,");
    sim_pass(&s, 2000);
    ok(all_hear(N,
                "the connection between rank 3 (node2) and rank 4 (node3) broke during operation 18: Connection timed "
                "out; look at the network between them"),
       "unless it is dialled in vain: %s", s.conns[0].cause.text);
    sim_close(&s);
    start();
    sim_count(&s, 3, HP_LEAVE, 18);
    sim_repairs(&s, 4, 3, ETIMEDOUT, 18);
    sim_pass(&s, 9000);
    sim_say(&s, 4, HP_FOUND, peer, sizeof(peer));
    sim_pass(&s, 20000);
    ok(all_hear(0, ""), "it is found in time");
    sim_close(&s);
    start();
    sim_repairs(&s, 4, 3, ECONNRESET, 18);
    sim_pass(&s, 15000);
    sim_count(&s, 3, HP_LEAVE, 18);
    sim_pass(&s, 9000);
    ok(all_hear(0, ""), "one that is made again for long has its ten seconds from then on when its peer leaves");
    sim_pass(&s, 2000);
    ok(s.conns[0].causes == 1, "but no more: %s", s.conns[0].cause.text);
    sim_close(&s);
}

/* A connection for messages belongs to no operation. */
static void
test_messages(void)
{
    start();
    sim_lost(&s, 4, 3, ECONNRESET, HP_NO_OPERATION);
    sim_lost(&s, 3, 4, ECONNRESET, HP_NO_OPERATION);
    ok(all_hear(N, "the connection between rank 3 (node2) and rank 4 (node3) broke: Connection reset by peer; both "
                   "processes are alive, so look at the network between them") &&
           s.conns[0].cause.sequence == HP_NO_OPERATION,
       "a connection for messages: no operation is named");
    sim_close(&s);
    start();
    sim_count(&s, 3, HP_LEAVE, 16);
    sim_lost(&s, 4, 3, ECONNRESET, HP_NO_OPERATION);
    sim_pass(&s, 150);
    ok(all_hear(N, "rank 3 (node2) left the communicator after 16 operations while rank 4 (node3) waits in a message"),
       "nor where its peer had left before");
    sim_close(&s);
    start(); /* both have everything, and notice at the end that a connection has broken meanwhile */
    sim_repairs(&s, 4, 3, ECONNRESET, HP_NO_OPERATION);
    sim_count(&s, 3, HP_LEAVE, 16);
    sim_pass(&s, 5000);
    ok(all_hear(0, ""), "one that is made again, whose peer leaves, is no loss");
    sim_count(&s, 4, HP_LEAVE, 16);
    sim_pass(&s, 20000);
    ok(all_hear(0, ""), "nor is one of a rank that leaves");
    for (int i = 0; i < N; i++)
        sim_count(&s, i, HP_LEAVE, 16);
    ok(strstr(s.line, "over: all"), "%s", s.line);
    sim_close(&s);
    start();
    sim_lost(&s, 4, 3, 0, HP_NO_OPERATION);
    sim_lose(&s, 3);
    sim_pass(&s, 550);
    ok(s.conns[0].cause.rank == 3 && s.conns[0].cause.sequence == 0 && strstr(s.conns[0].cause.text, "vanished"),
       "a rank that has died ends every rank's own operation: %s", s.conns[0].cause.text);
    sim_close(&s);
}

static void
test_one_end(void)
{
    start();
    sim_lost(&s, 4, 3, EPIPE, 18);
    sim_pass(&s, 250);
    sim_report(&s, 3, 17, 3, 2);
    sim_pass(&s, 200);
    is_int(0, s.conns[0].causes, "one end reports an end or a reset: the other's process has half a second to end");
    sim_pass(&s, 50);
    ok(all_hear(N,
                "the connection between rank 3 (node2) and rank 4 (node3) broke during operation 18: Broken pipe; both "
                "processes are alive, so look at the network between them"),
       "something is heard of it meanwhile: it is alive");
    sim_close(&s);
    start();
    sim_lost(&s, 4, 3, 0, 18);
    sim_report(&s, 3, 17, 3, 2);
    sim_pass(&s, 500);
    ok(all_hear(N, "the connection between rank 3 (node2) and rank 4 (node3) broke during operation 18; look at the "
                   "network between them"),
       "what it said before the end, and the end, say nothing about the process");
    sim_close(&s);
    start();
    sim_pass(&s, 2000); /* a rank of which something was heard just now lives */
    sim_lost(&s, 4, 3, ETIMEDOUT, 18);
    sim_pass(&s, 100);
    ok(all_hear(N,
                "the connection between rank 3 (node2) and rank 4 (node3) broke during operation 18: Connection timed "
                "out; look at the network between them"),
       "nobody has answered: nothing is said about the processes");
    sim_close(&s);
}

/* Every order of the first events after a reset, by chance: nobody is said to have left. */
static void
test_leavers(void)
{
    int good = 0, seeds = 300;
    for (int seed = 0; seed < seeds; seed++) {
        start();
        int a = (int)(tap_random() % N), b = (a + 1) % N;
        for (int i = 0; i < N; i++)
            if (tap_random() % 2)
                sim_report(&s, i, 17 + tap_random() % 2, 3, (i + N - 1) % N);
        sim_lost(&s, a, b, ECONNRESET, 17);
        for (int i = 0; i < N; i++) /* who failed by what a neighbour passed on, and left */
            if (i != b && tap_random() % 2)
                sim_count(&s, i, HP_LEAVE, 16);
        if (tap_random() % 2)
            sim_lost(&s, b, a, ECONNRESET, 17);
        sim_pass(&s, 550);
        int told = 0;
        for (int i = 0; i < N; i++)
            told += case_ok(s.conns[i].causes == 1 && s.conns[i].cause.rank == (a < b ? a : b) &&
                                strstr(s.conns[i].cause.text, "the connection between"),
                            "case %d, ranks %d and %d: rank %d was told %d causes, the first of rank %d: %s", seed, a,
                            b, i, s.conns[i].causes, s.conns[i].cause.rank, s.conns[i].cause.text);
        good += told == N;
        sim_close(&s);
    }
    is_int(seeds, good, "whoever leaves after a loss was reported is not the cause");
    start();
    sim_count(&s, 3, HP_LEAVE, 16);
    sim_lost(&s, 4, 3, ECONNRESET, 17);
    sim_pass(&s, 150);
    ok(all_hear(N,
                "rank 3 (node2) left the communicator after 16 operations while rank 4 (node3) waits in operation 17"),
       "who left before is");
    sim_close(&s);
}

static void
test_process(void)
{
    start();
    sim_lost(&s, 4, 3, ECONNRESET, 17);
    sim_lost(&s, 2, 3, 0, 17);
    sim_lose(&s, 3);
    ok(all_hear(N - 1,
                "rank 3 (node2, pid 803) vanished during operation 17: its process ended or its connection broke"),
       "a process that has ended is named at once, though its neighbours report losses before");
    sim_close(&s);
    start();
    sim_lost(&s, 4, 3, 0, 17);
    sim_pass(&s, 300);
    is_int(0, s.conns[0].causes, "the end of its control connection may come late, by a lost packet");
    sim_lose(&s, 3);
    is_int(N - 1, sim_told(&s, N, 3, HOOP_ERR_PEER_LOST, 3), "it is the process all the same");
    ok(strstr(s.conns[0].cause.text, "vanished during operation 17") != NULL, "%s", s.conns[0].cause.text);
    sim_close(&s);
    start();
    sim_break(&s, 3);
    is_int(0, s.conns[0].causes, "a control connection that is reset is no verdict");
    sim_lost(&s, 4, 3, 0, 17);
    is_int(N - 1, sim_told(&s, N, 3, HOOP_ERR_PEER_LOST, 3), "a neighbour's loss makes it one, at once");
    sim_close(&s);
    start();
    sim_break(&s, 3);
    hp_job_ended(s.job, 3, N, "node2", s.now);
    is_int(N - 1, sim_told(&s, N, 3, HOOP_ERR_PEER_LOST, 3), "so does who started the process");
    sim_close(&s);
}

/* All connections of one rank are reset, which lives. */
static void
test_all_reset(void)
{
    start();
    sim_report(&s, 3, 17, 2, 2);
    sim_break(&s, 3);
    sim_lost(&s, 4, 3, ECONNRESET, 17);
    sim_lost(&s, 2, 3, ECONNRESET, 17);
    sim_pass(&s, 400);
    is_int(0, s.conns[0].causes, "all connections of a rank are reset: it may dial the server again");
    is_int(0, sim_return(&s, 3, &s.conns[3], 16), "so it does");
    sim_lost(&s, 3, 2, ECONNRESET, 17);
    is_int(N, sim_told(&s, N, -1, HOOP_ERR_PEER_LOST, 2), "nobody is said to have vanished");
    ok(strstr(s.conns[0].cause.text, "between rank 2 (node2) and rank 3 (node2) broke") != NULL, "%s",
       s.conns[0].cause.text);
    sim_close(&s);
    start();
    sim_break(&s, 3);
    sim_lost(&s, 4, 3, ECONNRESET, 17);
    sim_pass(&s, 500);
    is_int(N - 1, sim_told(&s, N, 3, HOOP_ERR_PEER_LOST, 3), "one that stays away for half a second has vanished");
    sim_close(&s);
}

/* Neighbours may be an operation apart: the one that is behind knows where the rank was. */
static void
test_apart(void)
{
    start();
    sim_lost(&s, 2, 3, ECONNRESET, 18);
    sim_lost(&s, 4, 3, ECONNRESET, 17);
    sim_lose(&s, 3);
    sim_pass(&s, 200);
    ok(strstr(s.conns[0].cause.text, "vanished during operation 17") != NULL, "%s", s.conns[0].cause.text);
    sim_close(&s);
}

static void
test_away(void)
{
    start();
    sim_report(&s, 3, 17, 2, 2);
    sim_break(&s, 3);
    ok(hp_job_timed(s.job), "the server looks after a rank that is away");
    sim_pass(&s, 400);
    is_int(0, s.conns[0].causes, "in an operation it has half a second");
    is_int(0, sim_return(&s, 3, &s.conns[3], 16), "it comes back");
    ok(s.conns[3].go == 1 && s.conns[3].causes == 0, "and hears GO");
    sim_report(&s, 3, 17, 4, 2);
    sim_pass(&s, 1000);
    is_int(0, s.conns[0].causes, "nobody has noticed");
    sim_break(&s, 3);
    sim_pass(&s, 550);
    is_int(N - 1, sim_told(&s, N, 3, HOOP_ERR_PEER_LOST, 3), "the second time it stays away: it has vanished");
    is_int(0, sim_return(&s, 3, &s.conns[3], 16), "when it comes back after that");
    is_int(3, s.conns[3].cause.rank, "it hears the verdict");
    sim_break(&s, 3);
    sim_break(&s, 2);
    for (int i = 0; i < N; i++)
        sim_lose(&s, i);
    sim_pass(&s, 500);
    is_int(0, sim_return(&s, 2, &s.conns[2], 16), "also when all others have gone already");
    is_int(3, s.conns[2].cause.rank, "the same one");
    sim_close(&s);
    start();
    sim_break(&s, 5);
    sim_pass(&s, 60000);
    is_int(0, s.conns[0].causes, "one that is in no operation may be computing, and comes back when it likes");
    is_int(0, sim_return(&s, 5, &s.conns[5], 3), "here it is");
    sim_count(&s, 5, HP_LEAVE, 3);
    sim_close(&s);
}

/* A bad network to the server moves nothing in the ring. */
static void
test_stalled(void)
{
    start();
    for (int k = 0; k < 5; k++) {
        for (int i = 0; i < N; i++)
            if (i != 3)
                sim_report(&s, i, 17, 2, (i + N - 1) % N);
        sim_pass(&s, 350);
        if (k == 4)
            break;
        sim_break(&s, 5);
        sim_pass(&s, 50);
        sim_return(&s, 5, &s.conns[5], 16);
    }
    is_int(0, s.conns[0].causes, "a rank is away every 0.4 s: until the time-out nothing happens");
    sim_pass(&s, 50);
    is_int(N, sim_told(&s, N, -1, HOOP_ERR_TIMEOUT, 3), "but then, and the one who holds up the others is named");
    sim_close(&s);
}

static void
test_return(void)
{
    sim_conn was;
    start();
    was = s.conns[3];
    is_int(0, sim_return(&s, 20, &was, 5), "a member comes back before the server has seen that its line broke");
    ok(s.conns[20].go == 1 && s.conns[3].disconnected == 1, "it takes the place of its former self");
    sim_lose(&s, 3);
    is_int(0, s.conns[0].causes, "whose end is no loss");
    sim_break(&s, 20);
    uint64_t right = was.ring.comm;
    was.ring.comm -= 7;
    sim_return(&s, 21, &was, 5);
    ok(s.conns[21].cause_type == HP_REFUSED && s.conns[21].disconnected == 1, "another ring's: %s",
       s.conns[21].cause.text);
    was.ring.comm = right;
    was.ring.members[was.rank].pid++;
    sim_return(&s, 22, &was, 5);
    is_int(HP_REFUSED, s.conns[22].cause_type, "another process is refused");
    was.ring.members[was.rank].pid--;
    was.ring.epoch++;
    sim_return(&s, 23, &was, 5);
    is_int(HP_REFUSED, s.conns[23].cause_type, "so is another epoch");
    is_int(0, s.conns[0].causes, "and that harms nobody");
    sim_close(&s);
    start();
    for (int i = 0; i < N; i++)
        sim_break(&s, i);
    sim_pass(&s, 300);
    for (int i = 0; i < N; i++)
        sim_return(&s, i, &s.conns[i], 5);
    int go = 0;
    for (int i = 0; i < N; i++)
        go += s.conns[i].go == 1;
    is_int(N, go, "all are away at once: their ring is kept for them");
    for (int i = 0; i < N; i++)
        sim_break(&s, i);
    sim_pass(&s, 4900);
    ok(!hp_job_idle(s.job), "as long as they would dial");
    sim_pass(&s, 200);
    ok(hp_job_idle(s.job), "but not for ever");
    is_string(
        "job 4f21c0de: over: 0 of 8 ranks left after 5 operations; rank 0 (node1, pid 800) and 7 others did not come "
        "back after their control connections broke",
        s.line, "a line says so");
    sim_close(&s);
}

static void
all_but_3_leave(void)
{
    for (int i = 0; i < N; i++)
        if (i != 3) {
            sim_count(&s, i, HP_LEAVE, 16);
            sim_lose(&s, i);
        }
}

/* A rank may look at its control connection last of all, when it leaves. */
static void
test_return_last(void)
{
    start();
    sim_break(&s, 3);
    sim_pass(&s, 1000);
    all_but_3_leave();
    sim_pass(&s, 4900);
    ok(!hp_job_idle(s.job), "all but one have left, which has been away since: the ring is kept for it");
    is_int(0, sim_return(&s, 3, &s.conns[3], 16), "it comes back");
    sim_count(&s, 3, HP_LEAVE, 16);
    is_string("job 4f21c0de: over: all 8 ranks left after 16 operations", s.line, "and leaves");
    sim_close(&s);
    start();
    sim_break(&s, 3);
    all_but_3_leave();
    sim_pass(&s, 5100);
    ok(hp_job_idle(s.job), "one that does not come back is not awaited for ever");
    is_string(
        "job 4f21c0de: over: 7 of 8 ranks left after 16 operations; rank 3 (node2, pid 803) did not come back after "
        "its control connection broke",
        s.line, "and is named");
    sim_close(&s);
}

/* The owner asks about ranks that are away, and a proof decides at once. */
static void
test_probed(void)
{
    const hp_member *who[N];
    start();
    sim_report(&s, 3, 17, 2, 2);
    is_int(0, hp_absence_list(s.job, who, N), "nobody is absent");
    sim_break(&s, 3);
    sim_break(&s, 5);
    is_int(2, hp_absence_list(s.job, who, N), "two are");
    is_int(1, hp_absence_list(s.job, who, 1), "of whom one fits");
    is_int(803, who[0]->pid, "the first");
    hp_job_probed(s.job, who[0], 0, s.now);
    sim_pass(&s, 1500);
    is_int(0, s.conns[0].causes, "a rank that is alive has more than half a second, in an operation as well");
    is_int(0, sim_return(&s, 3, &s.conns[3], 16), "it comes back");
    hp_member ended = s.conns[0].ring.members[5];
    hp_job_probed(s.job, &ended, 1, s.now);
    is_int(N - 1, sim_told(&s, N, 5, HOOP_ERR_PEER_LOST, 5),
           "one that has ended is named at once, also one that computed");
    is_int(0, hp_absence_list(s.job, who, N), "and nobody asks about it any more");
    sim_close(&s);
}

/* Processes of two containers with the network of their host, which both have number 803 there. */
static void
test_containers(void)
{
    const hp_member *who[N];
    start();
    hp_member *members = s.job->rosters->ring.members;
    members[5].host_id = members[3].host_id;
    members[5].pid = members[3].pid;
    hp_addr_set_port(&members[5].addr, 4001);
    sim_report(&s, 0, 17, 2, 2);
    sim_break(&s, 3);
    sim_break(&s, 5);
    is_int(2, hp_absence_list(s.job, who, N), "each is asked");
    hp_member ended = members[5];
    hp_job_probed(s.job, &ended, 1, s.now);
    is_int(N - 2, sim_told(&s, N, -1, HOOP_ERR_PEER_LOST, 5), "the one that has ended is named, not the other one");
    sim_close(&s);
}

static void
test_link_losses(void)
{
    start();
    is_int(-1, sim_lost(&s, 2, 2, 0, 1), "a rank cannot lose itself");
    is_int(-1, sim_lost(&s, 2, N, 0, 1), "nor rank %d of %d", N, N);
    is_int(-1, sim_say(&s, 2, HP_LOST, "x", 1), "nor in one byte");
    sim_close(&s);
}

/* Ranks behind proxies, with a time-out of a minute. */
static void
start_behind(int n)
{
    sim_open(&s);
    for (int i = 0; i < n; i++) {
        hp_join join = sim_join_of(i, n, 1);
        join.member.proxied = 1;
        join.op_timeout = 60 * HP_SEC;
        sim_join(&s, i, &join);
    }
    for (int i = 0; i < n; i++) {
        sim_say(&s, i, HP_READY, NULL, 0);
        s.conns[i].ring.members[i].proxied = 1; /* its next JOIN says so again; a roster does not */
    }
}

static void
test_proxies(void)
{
    enum { FOUR = 4 };
    start_behind(FOUR);
    sim_report(&s, 2, 6, 1, 1);
    sim_lose(&s, 2);
    sim_pass(&s, 20000);
    is_int(0, s.failures, "an orderly close may be that of a proxy: it is no death, even in an operation");
    sim_return(&s, 2, &s.conns[2], 5);
    is_int(1, s.conns[2].go, "the rank comes back");
    sim_lose(&s, 2);
    sim_report(&s, 1, 6, 1, 2);
    sim_lost(&s, 1, 2, 0, 6);
    ok(s.failures == 1 && s.conns[1].cause.rank == 2 && strstr(s.line, "rank 2 (node3, pid 802) vanished"),
       "if its neighbour sees its end, too, it has died: told at once: %s", s.line);
    sim_close(&s);
    start_behind(FOUR);
    for (int i = 0; i < FOUR; i++)
        sim_lose(&s, i);
    sim_pass(&s, 50000);
    ok(!hp_job_idle(s.job), "all are away, and may compute: their ring is kept for as long as an operation may take");
    hp_join other = sim_join_of(3, FOUR, 1);
    other.member.pid = 4711;
    sim_join(&s, 9, &other);
    ok(!s.conns[9].causes, "but it is in nobody's way: the job may be started anew");
    sim_lose(&s, 9);
    sim_pass(&s, 50000);
    sim_return(&s, 0, &s.conns[0], 5);
    is_int(1, s.conns[0].go, "the time counts from the job's last connection");
    sim_lose(&s, 0);
    sim_pass(&s, 61000);
    ok(hp_job_idle(s.job), "then it is forgotten");
    sim_close(&s);
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    test_link();
    test_repaired();
    test_messages();
    test_one_end();
    test_leavers();
    test_process();
    test_all_reset();
    test_apart();
    test_away();
    test_stalled();
    test_return();
    test_return_last();
    test_probed();
    test_containers();
    test_link_losses();
    test_proxies();
    return tap_failures() != 0;
}
