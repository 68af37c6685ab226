/* SPDX-License-Identifier: MIT */
/*
 * cut_off: who is named when hosts acknowledge nothing, and that nobody is before peer_timeout, nor before a probe had no answer.
 * The clock and the kernel's answers are the test's.
 */
#include "base/clock.h"
#include "rendezvous/lookout.h"
#include "t/rendezvous/sim.h"
#include "t/tap/tap.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { N = 8, PER_HOST = 2 };

static sim s;

static void
start(void)
{
    sim_open(&s);
    sim_world(&s, N, PER_HOST);
}

/* A probe has had no answer. */
static void
unreached(const hp_member *who)
{
    hp_job_unreached(s.job, who, hp_absence_silence(s.job, who, s.now), s.now);
}

/* Ranks [first, last] are silent for so many seconds, and the owner asks each absent process, which does not answer. */
static void
silent(int first, int last, int seconds)
{
    const hp_member *absent[N];
    for (int i = first; i <= last; i++)
        hp_absence_see(&s.conns[i].conn, (uint64_t)seconds * HP_SEC);
    int n = hp_absence_list(s.job, absent, N);
    for (int i = 0; i < n; i++)
        unreached(absent[i]);
}

static int
hear(int rank, const char *text)
{
    int told = 0;
    for (int i = 0; i < N; i++)
        told += i != rank && s.conns[i].causes == 1 && s.conns[i].cause.rank == rank &&
                s.conns[i].cause.code == HOOP_ERR_PEER_LOST && !!strstr(s.conns[i].cause.text, text);
    if (told < N - 1)
        diag("%d were told; rank 0 heard: %s", told, s.conns[0].cause.text);
    return told >= N - 1;
}

static void
test_silence(void)
{
    start();
    silent(4, 5, 29);
    is_int(0, s.conns[0].causes, "a host is silent for 29 s while all compute: nothing is said");
    silent(4, 5, 0);
    silent(4, 5, 30);
    ok(hear(4, "is cut off: its host has acknowledged nothing for 30.0 s; look at its cable"), "30 s: it is cut off");
    sim_close(&s);
    start();
    for (int i = 0; i < N; i++)
        if (i != 6)
            sim_report(&s, i, 3, 1, 6);
    silent(6, 6, 31);
    ok(hear(6, "is cut off during operation 3") && s.conns[0].cause.sequence == 3, "in an operation, with its number");
    sim_close(&s);
}

/* When the others have ended, a rank that was cut off still hears why, if its cable is back in time. */
static void
test_back(int seconds, int known)
{
    start();
    silent(4, 4, 31);
    for (int i = 0; i < N; i++)
        if (i != 4)
            sim_lose(&s, i);
    sim_break(&s, 4);
    sim_pass(&s, seconds * 1000);
    sim_return(&s, 4, &s.conns[4], 0);
    const char *text = s.conns[4].cause.text;
    if (known)
        ok(strstr(text, "rank 4 (node3, pid 804) is cut off") != NULL, "one that is back after %d s: %s", seconds,
           text);
    else
        ok(strstr(text, "does not know the ring") != NULL, "after %d s nobody knows it: %s", seconds, text);
    sim_close(&s);
}

static void
test_answers(void)
{
    const hp_member *absent[N];
    start();
    hp_absence_see(&s.conns[4].conn, 40 * HP_SEC);
    is_int(1, hp_absence_list(s.job, absent, N), "a silent process is asked");
    hp_job_probed(s.job, absent[0], 0, s.now);
    sim_pass(&s, 10000);
    is_int(0, s.conns[0].causes, "it answers, so TCP will find that its host is back");
    is_int(1, hp_absence_list(s.job, absent, N), "it is asked again while it is silent");
    hp_job_probed(s.job, absent[0], 1, s.now);
    ok(hear(4, "vanished"), "its host refuses the connection: the process has ended");
    sim_close(&s);
}

/* What a host that hears nothing sends still arrives, and so does the end of its connection, by its own keepalive. */
static void
test_deaf_host(void)
{
    start();
    sim_report(&s, 4, 3, 1, 5);
    hp_absence_see(&s.conns[4].conn, 35 * HP_SEC);
    sim_break(&s, 4);
    sim_pass(&s, 1500);
    is_int(0, s.conns[0].causes, "a host has been silent for 35 s, and a connection to it breaks: a probe is awaited");
    unreached(&s.conns[0].ring.members[4]);
    ok(hear(4, "rank 4 (node3, pid 804) is cut off during operation 3"), "it has no answer: the host is cut off");
    sim_close(&s);
    start();
    sim_report(&s, 4, 3, 1, 5);
    hp_absence_see(&s.conns[4].conn, 35 * HP_SEC);
    sim_break(&s, 4);
    hp_job_probed(s.job, &s.conns[0].ring.members[4], 1, s.now);
    ok(hear(4, "rank 4 (node3, pid 804) vanished"),
       "its host is back, and refuses a connection: the process has ended");
    sim_close(&s);
    start();
    hp_absence_see(&s.conns[4].conn, 35 * HP_SEC);
    sim_break(&s, 4);
    hp_job_probed(s.job, &s.conns[0].ring.members[4], 0, s.now);
    sim_pass(&s, 3000);
    unreached(&s.conns[0].ring.members[4]);
    is_int(0, s.conns[0].causes, "its host is back, and the process lives: its silence is over");
    sim_close(&s);
    start();
    sim_report(&s, 4, 3, 1, 5);
    hp_absence_see(&s.conns[4].conn, 3 * HP_SEC);
    sim_lost(&s, 3, 4, 0, 3);
    sim_break(&s, 4);
    sim_pass(&s, 700);
    ok(hear(4, "rank 4 (node3, pid 804) vanished"), "a link to it is lost for good: there is no time for a probe");
    sim_close(&s);
}

/* Rank `rank` calls hoop_comm_split, as conn 10 + rank. */
static void
split(int rank)
{
    hp_join join = sim_derived_of(&s, rank);
    join.split = 1;
    join.epoch = 100 + (uint32_t)rank; /* it can be known again */
    join.patience = 100000;
    join.peer_timeout = 30 * HP_SEC;
    sim_join(&s, 10 + rank, &join);
}

/* So do all ranks from this one on. */
static void
start_split(int first)
{
    start();
    for (int rank = first; rank < N; rank++)
        split(rank);
}

/*
 * Rank 4 waits in a split when its host hears nothing more. It has sent something a moment before its connections end, so the
 * server has found the host silent for three seconds only. late: rank 0 calls meanwhile, and the new ring is linked.
 */
static void
test_split(int late)
{
    start_split(1);
    hp_absence_see(&s.conns[4].conn, 3 * HP_SEC);
    hp_absence_see(&s.conns[14].conn, 3 * HP_SEC);
    sim_break(&s, 4);
    sim_break(&s, 14);
    sim_pass(&s, 4000);
    if (late)
        split(0);
    sim_pass(&s, 22000);
    unreached(&s.conns[0].ring.members[4]);
    is_int(0, s.conns[0].causes + s.conns[11].causes, "in a split%s: nobody is named before peer_timeout",
           late ? " that is complete" : "");
    sim_pass(&s, 2000);
    unreached(&s.conns[0].ring.members[4]);
    ok(hear(4, "rank 4 (node3, pid 804) is cut off: its host has acknowledged nothing for 31.0 s"), "... then it is");
    ok(s.conns[11].cause.rank == 4 && strstr(s.conns[11].cause.text, "is cut off"), "... to those in the split: %s",
       s.conns[11].cause.text);
    sim_close(&s);
    start_split(!late);
    sim_break(&s, 14);
    sim_pass(&s, 5100);
    ok(strstr(s.conns[11].cause.text, "rank 4 (node3, pid 804) vanished"), "of a host that was not silent: %s",
       s.conns[11].cause.text);
    sim_close(&s);
}

/* So does one in an operation; and the two connections of a process may have been silent for different times. */
static void
test_late_silence(void)
{
    sim_ring(&s, N, PER_HOST, 100 * HP_SEC);
    sim_report(&s, 4, 3, 1, 5);
    hp_absence_see(&s.conns[4].conn, 3 * HP_SEC);
    sim_break(&s, 4);
    sim_pass(&s, 26000);
    unreached(&s.conns[0].ring.members[4]);
    is_int(0, s.conns[0].causes, "in an operation: nobody is named before peer_timeout");
    sim_pass(&s, 2000);
    unreached(&s.conns[0].ring.members[4]);
    ok(hear(4, "rank 4 (node3, pid 804) is cut off during operation 3"), "... then it is");
    sim_close(&s);
    start_split(1);
    hp_absence_see(&s.conns[4].conn, HP_SEC / 2);
    hp_absence_see(&s.conns[14].conn, 2 * HP_SEC);
    sim_break(&s, 4);
    sim_break(&s, 14);
    sim_pass(&s, 29000);
    unreached(&s.conns[0].ring.members[4]);
    ok(hear(4, "rank 4 (node3, pid 804) is cut off"), "one connection of a process tells of another one");
    sim_close(&s);
    start_split(1);
    hp_absence_see(&s.conns[14].conn, 2 * HP_SEC);
    sim_break(&s, 14);
    sim_pass(&s, 29000);
    unreached(&s.conns[0].ring.members[4]);
    is_int(0, s.conns[0].causes, "but not if one of them is sound");
    sim_close(&s);
}

/*
 * Probes never arrive, behind a firewall for instance, and nothing was silent when a control connection was reset: that proves
 * nothing of a rank that computes.
 */
static void
test_firewall(void)
{
    start();
    hp_absence_see(&s.conns[4].conn, HP_SEC / 2);
    sim_break(&s, 4);
    for (int minute = 0; minute < 60; minute++) {
        unreached(&s.conns[0].ring.members[4]);
        sim_pass(&s, 60000);
    }
    is_int(0, s.conns[0].causes, "a rank computes for an hour, its connection was reset, and no probe arrives");
    sim_return(&s, 4, &s.conns[4], 0);
    is_int(0, s.conns[4].causes, "... it comes back");
    sim_close(&s);
}

/* A real listener that nobody accepts from: it has room for one connection, and then the kernel drops what comes. */
static int
listen_for_one(hp_addr *at)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *at = (hp_addr){.length = sizeof(at->u.v4)};
    at->u.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0 || bind(fd, &at->u.any, at->length) != 0 || listen(fd, 0) != 0 ||
        getsockname(fd, &at->u.any, &at->length) != 0)
        bail("no listener");
    return fd;
}

/* Takes the room. */
static int
fill(const hp_addr *at)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, &at->u.any, at->length) != 0)
        bail("no connection to a listener");
    return fd;
}

/* The owner asks for so many seconds of the test's clock; the kernel has a moment of real time for each. */
static void
ask_for(hp_lookout *lookout, int seconds)
{
    for (int i = 0; i < 10 * seconds; i++) {
        hp_lookout_ask(lookout, s.job, s.now);
        usleep(2000);
        sim_pass(&s, 100);
    }
}

/* Behind a proxy, whose host was silent when the connection broke, a process computes. Hours later the proxy is away for 6 s. */
static void
test_proxy(void)
{
    hp_lookout lookout = {0};
    start();
    hp_member *member = &s.job->rosters->ring.members[4];
    int listener = listen_for_one(&member->addr);
    member->proxied = 1;
    hp_absence_see(&s.conns[4].conn, 3 * HP_SEC);
    sim_break(&s, 4);
    for (int minute = 0; minute < 120; minute++)
        sim_pass(&s, 60000);
    ask_for(&lookout, 10);
    is_int(0, s.conns[0].causes,
           "a proxy answered a moment ago: it is not cut off, however long its connection is gone");
    ask_for(&lookout, 32);
    ok(hear(4, "rank 4 (node3, pid 804) is cut off"), "... but after 30 s: %s", s.conns[0].cause.text);
    hp_lookout_clear(&lookout);
    close(listener);
    sim_close(&s);
}

/* The owner takes the orderly end of a connection for that of the process, unless the host was silent at the last look. */
static void
test_end(void)
{
    start_split(1);
    for (int g = 4; g <= 14; g += 10) {
        hp_absence_see(&s.conns[g].conn, HP_SEC / 2);
        int may = hp_absence_was_silent(&s.conns[g].conn);
        hp_absence_see(&s.conns[g].conn, 3 * HP_SEC);
        ok(!may && hp_absence_was_silent(&s.conns[g].conn), "%s: a host that was silent may have given up",
           g == 4 ? "in a ring" : "in a split");
    }
    sim_close(&s);
}

/* A rank that waits in a split comes back there: what its connection was before is over. */
static void
test_back_in_split(void)
{
    start_split(1);
    hp_absence_see(&s.conns[14].conn, 31 * HP_SEC);
    hp_absence_see(&s.conns[4].conn, 3 * HP_SEC);
    sim_break(&s, 14);
    split(4);
    unreached(&s.conns[0].ring.members[4]);
    is_int(0, s.conns[0].causes, "a rank has just come back in a split: its old silence counts no more");
    sim_close(&s);
}

/* A connection broke in a short outage, and the process computes. Another one of it is silent for a moment, much later. */
static void
test_second_outage(void)
{
    start_split(1);
    hp_absence_see(&s.conns[14].conn, 3 * HP_SEC);
    sim_break(&s, 14);
    hp_absence_see(&s.conns[4].conn, 2 * HP_SEC);
    sim_pass(&s, 34000);
    unreached(&s.conns[0].ring.members[4]);
    is_int(0, s.conns[0].causes, "a connection broke 34 s ago, and another one is silent for 2 s");
    hp_absence_see(&s.conns[4].conn, 31 * HP_SEC);
    unreached(&s.conns[0].ring.members[4]);
    ok(hear(4, "rank 4 (node3, pid 804) is cut off: its host has acknowledged nothing for 31.0 s"), "... for 31 s");
    sim_close(&s);
}

/*
 * Rank 4 waits in a split, and nothing that the server has sent there is acknowledged. Its other connection carries nothing but
 * the keepalive of its own host, and looks sound until the server has sent something. heard: it is.
 */
static void
test_one_silent(int heard)
{
    const hp_member *who[N];
    hp_lookout lookout = {0};
    start_split(1);
    hp_absence_see(&s.conns[14].conn, 14 * HP_SEC);
    is_int(0, hp_absence_list(s.job, who, N), "a connection in a split is silent for 14 s: nobody asks");
    hp_absence_see(&s.conns[14].conn, 15 * HP_SEC);
    is_int(1, hp_absence_list(s.job, who, N), "for 15 s: its process is asked");
    hp_addr *at = &hp_join_group_entry(s.job->join_groups, &s.conns[14])->member.addr;
    int listener = listen_for_one(at), filler = fill(at);
    s.job->rosters->ring.members[4].addr = *at;
    ask_for(&lookout, 5);
    is_int(1, s.conns[4].pings,
           "it does not answer: its other connection, which looks sound, gets something to acknowledge");
    hp_absence_see(&s.conns[14].conn, 31 * HP_SEC);
    unreached(&s.job->rosters->ring.members[4]);
    is_int(0, s.conns[0].causes, "until a look shows that it does not, nobody is named");
    hp_absence_see(&s.conns[14].conn, 34 * HP_SEC);
    hp_absence_see(&s.conns[4].conn, heard ? 0 : 3 * HP_SEC);
    unreached(&s.job->rosters->ring.members[4]);
    if (heard)
        is_int(0, s.conns[0].causes, "it acknowledges: its host is there");
    else
        ok(hear(4, "rank 4 (node3, pid 804) is cut off: its host has acknowledged nothing for 34.0 s"), "it does not");
    hp_lookout_clear(&lookout);
    close(filler);
    close(listener);
    sim_close(&s);
}

/* One path of the network is dead: whoever does not acknowledge the server either is at its end. */
static void
test_losses(void)
{
    for (int reporter = 2; reporter <= 3; reporter++) {
        start();
        hp_absence_see(&s.conns[3].conn, 5 * HP_SEC);
        sim_lost(&s, reporter, 5 - reporter, ETIMEDOUT, 9);
        sim_pass(&s, 200);
        ok(hear(3, "rank 3 (node2, pid 803) is cut off"), "rank %d reports: rank 3 is cut off", reporter);
        sim_close(&s);
    }
    for (int silence = 2; silence <= 30; silence += 28) {
        start();
        hp_absence_see(&s.conns[3].conn, (uint64_t)silence * HP_SEC);
        sim_lost(&s, 2, 3, 0, 9);
        sim_pass(&s, 600);
        int cut = !!strstr(s.conns[0].cause.text, "rank 3 (node2, pid 803) is cut off");
        ok(s.conns[0].causes == 1 && cut == (silence > 5), "a process ends on a host that has been silent for %d s: %s",
           silence, s.conns[0].cause.text);
        sim_close(&s);
    }
    start();
    sim_lost(&s, 2, 3, ETIMEDOUT, 9);
    sim_pass(&s, 200);
    ok(strstr(s.conns[0].cause.text, "the connection between rank 2"), "both reach the server: %s",
       s.conns[0].cause.text);
    sim_close(&s);
    start();
    hp_absence_see(&s.conns[3].conn, 5 * HP_SEC);
    sim_abort(&s, 3, HOOP_ERR_PEER_LOST, 2, "rank 2 is cut off");
    ok(hear(3, "rank 3 (node2, pid 803) is cut off"), "a rank that hears nobody blames rank 2: it is itself cut off");
    sim_close(&s);
}

/* The line that is printed meanwhile has both, who is late and who is away. */
static void
test_line(void)
{
    char text[256];
    start();
    for (int i = 1; i < N; i++)
        sim_report(&s, i, 3, 1, 0);
    hp_absence_see(&s.conns[6].conn, 5 * HP_SEC);
    hp_absence_see(&s.conns[7].conn, 5 * HP_SEC);
    sim_late(&s, s.job->rosters, 6 * HP_SEC, text, sizeof(text));
    ok(strstr(text, "rank 0 (node1, pid 800) has not entered operation 3") &&
           strstr(text, "; ranks 6-7 are unreachable"),
       "%s", text);
    hp_absence_see(&s.conns[0].conn, 5 * HP_SEC);
    sim_late(&s, s.job->rosters, 6 * HP_SEC, text, sizeof(text));
    ok(!strstr(text, "; ranks"), "once is enough: %s", text);
    sim_close(&s);
}

static void
test_server(void)
{
    start();
    for (int i = 2; i < N; i++)
        hp_absence_see(&s.conns[i].conn, 29 * HP_SEC);
    silent(2, N - 1, 31);
    ok(hear(-1, "cut off from the rendezvous server"), "all other hosts are silent: it may be the server's own cable");
    sim_close(&s);
    start();
    silent(2, 5, 31);
    ok(hear(2, "rank 2 (node2, pid 802) is cut off"), "two of four hosts are: the first is named");
    sim_close(&s);
}

/* The server's host alone loses its cable for longer than peer_timeout. The ring goes on, and nobody is named for it. */
static void
test_deaf_server(void)
{
    for (int broken = 0; broken <= N; broken += N / 2) {
        start();
        for (int age = 20; age <= 60; age++) {
            silent(0, N - 1, age);
            for (int i = 0; i < N && age == 45; i++)
                sim_report(&s, i, 3, 1, (i + 1) % N);     /* the last before the cut: it was on its way */
            for (int i = 0; i < broken && age == 45; i++) /* by the server's own keepalive */
                sim_break(&s, i);
            sim_pass(&s, age == 45 ? 1500 : 0);
            for (int i = broken; i < N && age == 45; i++)
                sim_count(&s, i, HP_OUT, 3);
        }
        silent(2, N - 1, 65);
        for (int i = 0; i < 2 && i >= broken; i++)
            hp_absence_see(&s.conns[i].conn, 0);
        silent(2, N - 1, 66);
        is_int(0, s.conns[0].causes + s.conns[N - 1].causes,
               "nobody acknowledges the server, then some do, and %d connections broke: no verdict", broken);
        sim_pass(&s, 11000);
        if (broken) {
            sim_close(&s);
            continue;
        }
        for (int i = 4; i < N; i++)
            hp_absence_see(&s.conns[i].conn, 0);
        silent(2, 3, 77);
        ok(hear(2, "rank 2 (node2, pid 802) is cut off"), "a host that does not come back with the others is lost");
        sim_close(&s);
    }
    start();
    silent(0, N - 2, 31);
    ok(hear(-1, "cut off from the rendezvous server"), "one rank that acknowledges is enough for a verdict");
    sim_close(&s);
}

int
main(void)
{
    plan_lazy();
    tap_limit(30);
    test_silence();
    test_back(50, 1);
    test_back(70, 0);
    test_answers();
    test_deaf_host();
    test_split(0);
    test_split(1);
    test_late_silence();
    test_firewall();
    test_proxy();
    test_end();
    test_back_in_split();
    test_second_outage();
    test_one_silent(0);
    test_one_silent(1);
    test_losses();
    test_line();
    test_server();
    test_deaf_server();
    return tap_failures() != 0;
}
