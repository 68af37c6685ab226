/* SPDX-License-Identifier: MIT */
/*
 * wait_chain: ranks of one job that wait for each other across its rings, splits and messages. A ring is written as its
 * processes, "ABCD"; a process that waits in it is told as "B:D", B waits for D. Who waits for nobody is to blame.
 */
#include "rendezvous/hold_up.h"

#include "base/clock.h"
#include "t/rendezvous/wait_rings.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <string.h>

enum { TEXT = 256 };

/* Wanted "": the ring's own sentence is enough. */
static void
says_from(hp_wait_place from, int guilty, const char *wanted, const char *what)
{
    char text[TEXT] = "";
    hp_whereabouts where = hp_whereabouts_take(&rings_job, NULL, RINGS_AT * HP_SEC);
    int saw = -2, followed = hp_wait_chain_print(&where, &from, 2 * HP_SEC, &saw, text, sizeof(text));
    is_string(wanted, followed ? text : "", "%s", what);
    if (wanted[0])
        is_int(guilty, saw, "... and rank %d is to blame", guilty);
    hp_whereabouts_free(&where);
}

static void
says(const rings_ring *g, int guilty, const char *wanted, const char *what)
{
    says_from(rings_operation(g), guilty, wanted, what);
}

/* A, B and C wait for D in the whole job, and D waits for E in a split of those two. */
static rings_ring *
two_rings(const char *world)
{
    rings_begin();
    rings_ring *all = rings_add(world);
    rings_wait(all, "A:D B:A C:B");
    rings_wait(rings_add("DE"), "D:E");
    return all;
}

static void
test_one(void)
{
    rings_ring *all = two_rings("ABCD");
    says(all, -1,
         "rank 3 (nodeD, pid 868) waits in operation 1 (barrier) of split 1 colour 0 for its rank 1 (nodeE, pid 869), "
         "which "
         "has not entered it, or was stopped; 3 ranks have waited 2.0 s in operation 7",
         "the awaited rank waits in another ring, for one that is not in the first");
    says(&rings[1], 0, "", "the other ring says it itself");
    all = two_rings("ABCDE");
    says(
        all, 4,
        "rank 3 (nodeD, pid 868) waits in operation 1 (barrier) of split 1 colour 0 for rank 4 (nodeE, pid 869), which "
        "has not entered it, and its process runs; 3 ranks have waited 2.0 s in operation 7",
        "for one that is in both");
    rings_stopped = '?';
    says(
        all, 4,
        "rank 3 (nodeD, pid 868) waits in operation 1 (barrier) of split 1 colour 0 for rank 4 (nodeE, pid 869), which "
        "has not entered it, or was stopped; 3 ranks have waited 2.0 s in operation 7",
        "nothing is known of its process");
    rings_stopped = 'E';
    says(
        all, 4,
        "rank 3 (nodeD, pid 868) waits in operation 1 (barrier) of split 1 colour 0 for rank 4 (nodeE, pid 869), which "
        "has not entered it: its process is stopped; 3 ranks have waited 2.0 s in operation 7",
        "it is stopped");
    rings_stopped = 0;
    rings[1].witnesses[1].left = 1;
    says(
        all, 4,
        "rank 3 (nodeD, pid 868) waits in operation 1 (barrier) of split 1 colour 0 for rank 4 (nodeE, pid 869), which "
        "left that communicator before it; 3 ranks have waited 2.0 s in operation 7",
        "it has left");
    all = two_rings("ABCDE");
    rings_wait(&rings[1], "E:D");
    rings[1].witnesses[1].last_seen -= 2 * HP_SEC;
    says(
        all, 4,
        "rank 3 (nodeD, pid 868) waits in operation 1 (barrier) of split 1 colour 0 for rank 4 (nodeE, pid 869), which "
        "is stopped or unreachable; 3 ranks have waited 2.0 s in operation 7",
        "it is silent");
    rings[1].witnesses[1].last_seen += 2 * HP_SEC;
    says(all, 3,
         "rank 3 (nodeD, pid 868) waits in split 1 colour 0, where operation 1 (barrier) does not progress: rank 0 "
         "(nodeD) "
         "waits for rank 1 (nodeE), and both are alive, so look at the network between them; 1 rank has waited 2.0 s",
         "there the connection is to blame");
    rings[1].witnesses[1] = (hp_witness){.completed = 1};
    says(all, 4,
         "rank 3 (nodeD, pid 868) waits in split 1 colour 0, where rank 1 (nodeE) has finished operation 1 (barrier), "
         "but "
         "rank 0 (nodeD) still waits for it; 1 rank has waited 2.0 s",
         "there one has finished");
}

/* Where the awaited rank does not wait, it is late by itself. */
static void
test_not_followed(void)
{
    rings_ring *all = two_rings("ABCDE");
    rings_stopped = 'D';
    says(all, 0, "", "the awaited rank is stopped in the other ring");
    rings_stopped = 0;
    rings[1].witnesses[0].last_seen -= 2 * HP_SEC;
    says(all, 0, "", "or silent there");
    all = two_rings("ABCDE");
    rings[1].roster.moved = RINGS_AT * HP_SEC - 500 * HP_MS;
    says(all, 0, "", "the other ring moves");
    rings[1].roster.moved = RINGS_AT * HP_SEC + 1;
    says(all, 0, "", "since its last report");
    all = two_rings("ABCDE");
    rings[1].members[0].host_id = 8;
    says(all, 0, "", "the same process number on another host");
    all = two_rings("ABCDE");
    rings[1].roster.state = HP_ROSTER_FAILED;
    says(all, 0, "", "the other ring has failed");
    all = two_rings("ABCDE");
    rings_wait(all, "D:C");
    all->witnesses[3].last_seen -= 2 * HP_SEC;
    says(all, 0, "", "the awaited rank is in the operation, and silent");
    all = two_rings("ABCDE");
    all->witnesses[3].completed = 7;
    says(all, 0, "", "the awaited rank has finished the operation");
}

static void
test_many(void)
{
    rings_begin();
    rings_ring *all = rings_add("ABCDEF");
    rings_wait(all, "A:D B:A C:B");
    rings_wait(rings_add("DE"), "D:E");
    rings_wait(rings_add("EF"), "E:F");
    says(all, 5,
         "rank 3 (nodeD, pid 868) waits, over 2 calls, in operation 2 (barrier) of split 2 colour 0 for rank 5 "
         "(nodeF, pid 870), which has not entered it, and its process runs; 3 ranks have waited 2.0 s in operation 7",
         "over two rings");
    says(&rings[1], -1,
         "rank 1 (nodeE, pid 869) waits in operation 2 (barrier) of split 2 colour 0 for its rank 1 (nodeF, pid 870), "
         "which "
         "has not entered it, and its process runs; 1 rank has waited 2.0 s in operation 1",
         "the ring between them");
    rings_wait(rings_add("DF"), "D:F");
    says(all, 5,
         "rank 3 (nodeD, pid 868) waits, over 2 calls, in operation 2 (barrier) of split 2 colour 0 for rank 5 "
         "(nodeF, pid 870), which has not entered it, and its process runs; 3 ranks have waited 2.0 s in operation 7",
         "a rank that waits in two rings: the one that has stood still for longer is followed");
    rings[3].roster.moved = 80 * HP_SEC;
    says(all, 5,
         "rank 3 (nodeD, pid 868) waits in operation 3 (barrier) of split 3 colour 0 for rank 5 (nodeF, pid 870), "
         "which has "
         "not entered it, and its process runs; 3 ranks have waited 2.0 s in operation 7",
         "the other one is");
}

static void
test_circles(void)
{
    static const char three[] =
        "rank 1 (nodeB, pid 866) waits in operation 1 (barrier) of split 1 colour 0, and rank 0 (nodeA, pid 865) in "
        "operation "
        "7 (barrier) of the whole job, in a circle of 3 calls: call them in the same order; waited 2.0 s";
    rings_begin();
    rings_ring *all = rings_add("ABC");
    rings_wait(all, "A:B");
    rings_wait(rings_add("BC"), "B:C");
    rings_wait(rings_add("AC"), "C:A");
    rings_wait(rings_add("DA"), "D:A");
    says(all, 1, three, "three rings wait for each other");
    says(&rings[1], 1, three, "the second one says the same");
    says(&rings[2], 0, three, "and the third one");
    says(&rings[3], 1, three, "and one that waits for these");
}

/* A, B and C wait for D in the whole job. */
static rings_ring *
one_ring(const char *world)
{
    rings_begin();
    rings_ring *all = rings_add(world);
    rings_wait(all, "A:D B:A C:B");
    return all;
}

static void
test_splits(void)
{
    rings_ring *all = one_ring("ABCDE"), *pair = rings_add("DE");
    rings_split(pair, "D");
    says(
        all, 4,
        "rank 3 (nodeD, pid 868) waits in hoop_comm_split 1 of split 1 colour 0 for rank 4 (nodeE, pid 869), which has "
        "not called it, and its process runs; 3 ranks have waited 2.0 s in operation 7",
        "the awaited rank is in a split, which another one has not called");
    pair->joined[0].member.pid = 800u + 'A';
    says_from(rings_split_of(pair), 1, "", "a rank that gives another process than its own in a split");
    says(
        all, 4,
        "rank 3 (nodeD, pid 868) waits in hoop_comm_split 1 of split 1 colour 0 for rank 4 (nodeE, pid 869), which has "
        "not called it, and its process runs; 3 ranks have waited 2.0 s in operation 7",
        "... is the member of the ring all the same");
    pair->joined[0].at = RINGS_AT * HP_SEC - 1;
    says(all, 0, "", "a rank that has just come to a split was late itself");
    pair->joined[0].at = (RINGS_AT - 5) * HP_SEC;
    snprintf(pair->roster.name, HP_NAME_TEXT, "tp");
    pair->witnesses[1].left = 1;
    says(all, 4,
         "rank 3 (nodeD, pid 868) waits in hoop_comm_split 1 of \"tp\" for rank 4 (nodeE, pid 869), which left that "
         "communicator before it; 3 ranks have waited 2.0 s in operation 7",
         "that one has left");
    says_from(rings_split_of(pair), 1, "", "from the split: nothing more is known");
    pair->witnesses[1].left = 0;
    rings_stopped = 'D';
    says(all, 0, "", "the process of the rank in the split is stopped");
    rings_stopped = 0;
    pair->split.failure.code = HOOP_ERR_RENDEZVOUS;
    says(all, 0, "", "the split has failed");
    pair->split.failure.code = HOOP_SUCCESS;
    rings_wait(rings_add("EF"), "E:F");
    says_from(rings_split_of(pair), -1,
              "rank 1 (nodeE, pid 869) waits in operation 2 (barrier) of split 2 colour 0 for its rank 1 (nodeF, pid "
              "870), which has not entered it, or was stopped; 1 rank has waited 2.0 s in hoop_comm_split 1",
              "from the split: the missing rank waits itself");
    says(all, -1,
         "rank 3 (nodeD, pid 868) waits, over 2 calls, in operation 2 (barrier) of split 2 colour 0 for its rank 1 "
         "(nodeF, pid 870), which has not entered it, or was stopped; 3 ranks have waited 2.0 s in operation 7",
         "and the ring waits for the same");
    rings_begin();
    all = rings_add("ABCD");
    rings_split(all, "BA");
    pair = rings_add("CD");
    rings_split(pair, "C");
    says_from(
        rings_split_of(all), 3,
        "rank 2 (nodeC, pid 867) waits in hoop_comm_split 1 of split 1 colour 0 for rank 3 (nodeD, pid 868), which "
        "has not called it, and its process runs; 2 ranks have waited 2.0 s in hoop_comm_split 1",
        "a split waits for a split, and no rank reports anything");
}

static void
test_messages(void)
{
    rings_ring *all = one_ring("ABCDE");
    rings_receive(all, "D:E");
    says(all, 4,
         "rank 3 (nodeD, pid 868) waits in recv of 5 x float32 (tag 3) of the whole job for rank 4 (nodeE, pid 869), "
         "which has not sent it, and its process runs; 3 ranks have waited 2.0 s in operation 7",
         "the awaited rank receives, in the same ring");
    all->witnesses[3].waiting.call.kind = HP_SEND;
    all->witnesses[3].waiting.awaited.what = HP_WAIT_LINK;
    rings_stopped = 'E';
    says(all, 4,
         "rank 3 (nodeD, pid 868) waits in send of 5 x float32 (tag 3) of the whole job for rank 4 (nodeE, pid 869), "
         "which has not received it: its process is stopped; 3 ranks have waited 2.0 s in operation 7",
         "or sends");
    rings_stopped = 0;
    rings_receive(all, "D:-");
    says(all, 3,
         "rank 3 (nodeD, pid 868) waits in recv of 5 x float32 (tag 3) of the whole job for its own device; 3 ranks "
         "have "
         "waited 2.0 s in operation 7",
         "or waits for its own GPU");
    rings_receive(all, "D:E");
    all->witnesses[3].waiting_at -= 2 * HP_SEC;
    says(all, 0, "", "that was long ago");
    rings_receive(all, "D:E");
    all->witnesses[3].waiting.sequence = 7;
    says(all, 0, "", "it waits for its stream: no place");
    rings_receive(all, "D:E");
    rings_receive(all, "E:A");
    says(
        all, 3,
        "rank 3 (nodeD, pid 868) waits in recv of 5 x float32 (tag 3) of the whole job, and rank 0 (nodeA, pid 865) in "
        "operation 7 (barrier) of the whole job, in a circle of 3 calls: call them in the same order; waited 2.0 s",
        "the sender waits in another message, for a rank in the operation");
}

/* What a table says of a ring in which messages alone wait. */
static void
hangs(const rings_ring *g, const char *wanted, const char *what)
{
    char text[TEXT] = "";
    hp_whereabouts where = hp_whereabouts_take(&rings_job, NULL, RINGS_AT * HP_SEC);
    uint64_t lasted = hp_wait_chain_message(&where, &g->roster, (RINGS_AT + 1) * HP_SEC, text, sizeof(text));
    hp_whereabouts_free(&where);
    is_string(wanted, text, "%s", what);
    is_uint(wanted[0] ? 5 : 0, lasted / HP_SEC, "... its seconds");
}

static void
test_oldest_message(void)
{
    rings_begin();
    rings_ring *all = rings_add("ABC");
    hangs(all, "", "no message waits");
    rings_receive(all, "A:B");
    hangs(
        all,
        "rank 0 (nodeA) waits in recv of 5 x float32 (tag 3) from rank 1 (nodeB), which has not sent it; 5.0 s so far",
        "the words of the rank itself");
    rings_stopped = 'B';
    hangs(all,
          "rank 0 (nodeA) waits in recv of 5 x float32 (tag 3) from rank 1 (nodeB), which has not sent it: its process "
          "is "
          "stopped, by a signal or a debugger; 5.0 s so far",
          "and what they do not know");
    rings_stopped = 0;
    rings_receive(all, "B:A");
    all->witnesses[1].waiting.since -= HP_SEC;
    hangs(
        all,
        "rank 1 (nodeB, pid 866) waits in recv of 5 x float32 (tag 3) of the whole job, and rank 0 (nodeA, pid 865) in "
        "recv of 5 x float32 (tag 3) of the whole job: call them in the same order; waited 5.0 s",
        "each waits for the other");
    rings_receive(all, "B:-");
    rings_receive(all, "A:-");
    all->witnesses[1].waiting.since -= HP_SEC;
    hangs(all, "rank 0 (nodeA) waits in recv of 5 x float32 (tag 3) for its own device; 5.0 s so far",
          "the own device");
    all->witnesses[0].left = all->witnesses[1].left = 1;
    hangs(all, "", "ranks that have left wait for nothing");
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    test_one();
    test_not_followed();
    test_many();
    test_circles();
    test_splits();
    test_messages();
    test_oldest_message();
    return 0;
}
