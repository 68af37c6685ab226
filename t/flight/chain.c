/* SPDX-License-Identifier: MIT */
/*
 * chain: ranks that wait in one communicator for a rank that waits in another one: the rank at the end is named, whatever
 * the rank between them is in; if they wait for each other, in a circle, that is said.
 */
#include "flight/ring.h"

#include "t/flight/scene.h"
#include "t/tap/tap.h"

#include <stdio.h>

static hp_flight_record *
message(hp_flight *f, hp_kind kind, int peer, double ago)
{
    hp_flight_record *r = scene_call(f, (hp_call){.kind = kind, .dtype = HOOP_INT8, .root = 3, .count = 5}, ago, 1);
    r->sequence = 0;
    r->messages = 1;
    r->peer = peer;
    return r;
}

static void
fail_call(hp_flight_record *r)
{
    r->left = SCENE_NOW;
    r->result = HOOP_ERR_TIMEOUT;
}

/* Ranks 0 to 2 of 4 wait for 3, and that one in a pair for the process 4. */
static void
pair_is_late(void)
{
    scene_begin();
    for (int rank = 0; rank < 3; rank++)
        scene_call(scene_rank(rank, 4, WORLD), scene_barrier, 30, 1);
    scene_rank(3, 4, WORLD);
    snprintf(scene_process(3, 0, 2, OTHER)->head.name, HP_FLIGHT_TEXT, "pair");
    scene_call(scene_all.entry[4].flight, scene_allreduce(7), 90, 0);
    scene_call(scene_all.entry[4].flight, scene_allreduce(7), 29, 1);
    scene_call(scene_process(4, 1, 2, OTHER), scene_allreduce(7), 90, 0);
}

#define THREE_WAIT "ranks 0-2 wait in operation 1 (barrier); rank 3 (node3, pid 1003) has finished no operation "
#define IN_PAIR "in operation 2 (allreduce of 7 x float32, sum) of another communicator \"pair\" of 2 ranks, as rank 0"
#define FOURTH "rank 1 (node4, pid 1004) last finished operation 1 (allreduce of 7 x float32, sum) 89.0 s ago"

/* All say who is at the end, whichever communicator is told of; after a time-out, too, and when most have exited. */
static void
test_elsewhere(void)
{
    pair_is_late();
    scene_told(HP_FLIGHT_LATE, -1, THREE_WAIT "and waits " IN_PAIR ", where " FOURTH " and has not called since");
    is_uint(1004, scene_story.end->entry->flight->head.pid, "... and says which process that is");
    for (int i = 0; i < 4; i++)
        scene_all.entry[i].flight->head.realtime++;
    scene_told(HP_FLIGHT_LATE, 1,
               "\"pair\": rank 0 waits in operation 2 (allreduce of 7 x float32, sum); " FOURTH
               " and has not called since");
    pair_is_late();
    for (int i = 0; i < 5; i++) {
        hp_flight *f = scene_all.entry[i].flight;
        if (i != 3)
            fail_call(&f->record[f->count - 1]);
        f->head.error_code = i == 3 ? 0 : HOOP_ERR_TIMEOUT;
        scene_all.entry[i].state = i < 3 ? HP_FLIGHT_RUNS : HP_FLIGHT_ENDED;
    }
#define THREE_FAILED                                                                                                   \
    "ranks 0-2 have failed in operation 1 (barrier); rank 3 (node3, pid 1003) has finished no operation "
    scene_told(HP_FLIGHT_LATE, -1, THREE_FAILED "and failed " IN_PAIR ", where " FOURTH " and has not called since");
    scene_all.entry[5].state = HP_FLIGHT_STOPPED;
    scene_told(HP_FLIGHT_LATE, -1, THREE_FAILED "and failed " IN_PAIR ", where " FOURTH "; its process is stopped");
    pair_is_late();
    scene_all.entry[3].state = scene_all.entry[4].state = HP_FLIGHT_STOPPED;
    scene_told(HP_FLIGHT_LATE, 3,
               "ranks 0-2 wait in operation 1 (barrier); rank 3 (node3, pid 1003) has finished no operation; "
               "its process "
               "is "
               "stopped");
    pair_is_late();
    for (int i = 0; i < 6; i++)
        scene_all.entry[i].state = HP_FLIGHT_ENDED;
    scene_told(HP_FLIGHT_LATE, -1,
               "ranks 0-2 were in operation 1 (barrier); rank 3 (node3, pid 1003) has finished no operation and "
               "was " IN_PAIR ", where " FOURTH ", and then its process ended");
}

/* The rank between them waits in a split, or in a message. */
static void
test_elsewhere_in_others(void)
{
    pair_is_late();
    hp_flight *f = scene_all.entry[4].flight;
    f->count = 0;
    f->head.split = 2;
    f->head.split_at = SCENE_NOW - 20 * HP_SEC;
    scene_told(HP_FLIGHT_SPLIT, 1,
               "\"pair\": rank 0 waits in hoop_comm_split number 2, called 20.0 s ago; " FOURTH
               " and has not called since");
    f->head.split_at = 0;
    message(f, HP_RECV, 1, 20);
    scene_told(HP_FLIGHT_LATE, -1,
               THREE_WAIT
               "and waits in recv of 5 x int8 (tag 3) from rank 1 of another communicator \"pair\" of 2 ranks, as "
               "rank 0, where " FOURTH " and has not called since");
    message(scene_all.entry[5].flight, HP_RECV, 0, 15);
    scene_told(HP_FLIGHT_CROSSED, 3,
               THREE_WAIT
               "and waits in recv of 5 x int8 (tag 3) from rank 1 of another communicator \"pair\" of 2 ranks, as "
               "rank 0" SCENE_CIRCLE);
    scene_all.entry[5].flight->record[1].call.kind = HP_SEND;
    scene_told(HP_FLIGHT_LATE, 3,
               THREE_WAIT
               "and waits in recv of 5 x int8 (tag 3) from rank 1 of another communicator \"pair\" of 2 ranks, as "
               "rank 0");
}

/* Communicator i has the processes i and i + 1; each waits for the next one, in the one after. */
static void
test_long_chain(void)
{
    enum { LINKS = 40 };
    scene_begin();
    for (int i = 0; i < LINKS; i++) {
        scene_call(scene_process(i, 0, 2, WORLD + (uint64_t)i), scene_barrier, 30 - 0.1 * i, 1);
        scene_process(i + 1, 1, 2, WORLD + (uint64_t)i);
    }
    scene_told(
        HP_FLIGHT_LATE, -1,
        "rank 0 waits in operation 1 (barrier); rank 1 (node1, pid 1001) has finished no operation and waits in "
        "operation 1 (barrier) of another communicator of 2 ranks, as rank 0; a chain of 39 such waits leads to "
        "rank 1 "
        "(node40, pid 1040) of another communicator of 2 ranks, which has finished no operation and has not called "
        "since");
    scene_call(scene_process(LINKS, 0, 2, WORLD + LINKS), scene_barrier, 9, 1);
    scene_process(LINKS - 1, 1, 2, WORLD + LINKS);
    scene_told(
        HP_FLIGHT_CROSSED, 1,
        "rank 0 waits in operation 1 (barrier); rank 1 (node39, pid 1039) has finished no operation and waits in "
        "operation 1 (barrier) of another communicator of 2 ranks, as rank 0" SCENE_CIRCLE);
}

/* A collective of one communicator against a split of another one. */
static void
test_crossed_split(void)
{
    scene_begin();
    scene_call(scene_rank(0, 2, WORLD), scene_barrier, 30, 1);
    scene_rank(1, 2, WORLD);
    scene_rank(0, 2, OTHER);
    hp_flight *f = scene_rank(1, 2, OTHER);
    f->head.split = 1;
    f->head.split_at = SCENE_NOW - 20 * HP_SEC;
    scene_told(HP_FLIGHT_CROSSED, 1,
               "rank 0 waits in operation 1 (barrier); rank 1 (node1, pid 1001) has finished no operation and waits in "
               "hoop_comm_split number 1 of another communicator of 2 ranks, as rank 1" SCENE_CIRCLE);
}

/* Rank 0 is in the first communicator, rank 1 in the second, and each has to call the other's first. */
static void
test_crossed(void)
{
    scene_begin();
    scene_call(scene_rank(0, 2, WORLD), scene_barrier, 30, 1);
    scene_rank(1, 2, WORLD);
    scene_rank(0, 2, OTHER);
    scene_call(scene_rank(1, 2, OTHER), scene_allreduce(7), 20, 1);
    scene_told(HP_FLIGHT_CROSSED, 1,
               "rank 0 waits in operation 1 (barrier); rank 1 (node1, pid 1001) has finished no operation and waits in "
               "operation "
               "1 (allreduce of 7 x float32, sum) of another communicator of 2 ranks, as rank 1" SCENE_CIRCLE);
    for (int i = 0; i < 2; i++)
        scene_all.entry[i].flight->head.realtime++;
    scene_told(HP_FLIGHT_CROSSED, 0,
               "rank 1 waits in operation 1 (allreduce of 7 x float32, sum); rank 0 (node0, pid 1000) has finished no "
               "operation and waits in operation 1 (barrier) of another communicator of 2 ranks, as rank "
               "0" SCENE_CIRCLE);
}

/* Processes 1 and 2 wait for each other, in two communicators; the first one is late in a third one, too. */
static void
test_circle_of_processes(void)
{
    scene_begin();
    scene_call(scene_rank(0, 2, WORLD), scene_barrier, 30, 1);
    scene_rank(1, 2, WORLD);
    scene_call(scene_process(1, 0, 2, OTHER), scene_barrier, 20, 1);
    scene_process(2, 1, 2, OTHER);
    scene_call(scene_process(2, 0, 2, OTHER + 1), scene_barrier, 20, 1);
    scene_process(1, 1, 2, OTHER + 1);
    scene_told(HP_FLIGHT_CROSSED, 1,
               "rank 0 waits in operation 1 (barrier); rank 1 (node1, pid 1001) has finished no operation and waits in "
               "operation 1 (barrier) of another communicator of 2 ranks, as rank 0" SCENE_CIRCLE);
}

/* Each receives first. */
static void
test_circle_of_messages(void)
{
    scene_begin();
    message(scene_rank(0, 2, WORLD), HP_RECV, 1, 30);
    message(scene_rank(1, 2, WORLD), HP_RECV, 0, 20);
    scene_told(HP_FLIGHT_CROSSED, 1,
               "rank 0 (node0, pid 1000) waits in recv of 5 x int8 (tag 3) from rank 1, called 30.0 s ago; rank 1 "
               "(node1, pid 1001) has finished no operation and waits in recv of 5 x int8 (tag 3) from rank "
               "0" SCENE_CIRCLE);
}

/* In a group, and in alltoallv, the peer of the first message is done, and another one is not: who is awaited is late. */
static void
test_group(void)
{
    scene_begin();
    hp_flight_record *r = scene_call(scene_rank(0, 3, WORLD),
                                     (hp_call){.kind = HP_RECV, .dtype = HOOP_INT8, .root = 3, .count = 5}, 9, 1);
    scene_call(scene_rank(1, 3, WORLD), scene_barrier, 20, 0);
    scene_call(scene_rank(2, 3, WORLD), scene_barrier, 20, 0);
    r->sequence = 0;
    r->messages = 2;
    r->peer = 1;
    r->wait = HP_WAIT_LINK;
    r->awaited = 2;
#define SECOND_IS_LATE                                                                                                 \
    ", called 9.0 s ago; rank 2 (node2, pid 1002) last finished operation 1 (barrier) 19.0 s ago and has not called "  \
    "since"
    scene_told(HP_FLIGHT_MESSAGES, 2,
               "rank 0 (node0, pid 1000) waits in recv of 5 x int8 (tag 3) from rank 1, the first of 2 messages, for "
               "rank 2" SECOND_IS_LATE);
    r->call = (hp_call){.kind = HP_ALLTOALLV, .dtype = HOOP_INT8, .op = HOOP_SUM, .root = -1, .count = 5};
    r->peer = 0;
    scene_told(HP_FLIGHT_MESSAGES, 2, "rank 0 (node0, pid 1000) waits in alltoallv of 5 x int8" SECOND_IS_LATE);
    r->awaited = -1;
    scene_told(HP_FLIGHT_MESSAGES, -1, "rank 0 (node0, pid 1000) waits in alltoallv of 5 x int8, called 9.0 s ago");
}

/* --- several jobs --- */

/* An older job that died, one that died later, and perhaps one that lives; all are called the same. */
static void
test_jobs(void)
{
    scene_begin();
    for (int job = 0; job < 2; job++)
        for (int rank = 0; rank < 2; rank++) {
            hp_flight *f = scene_process(10 * job + rank, rank, 2, WORLD + (uint64_t)job);
            f->head.realtime += (uint64_t)job;
            scene_call(f, scene_allreduce(job ? 5 : 5 + (uint64_t)rank), 30, 1);
            scene_all.entry[scene_all.count - 1].state = HP_FLIGHT_ENDED;
        }
    scene_told(HP_FLIGHT_INSIDE, -1,
               "ranks 0-1 were in operation 1 (allreduce of 5 x float32, sum), called 30.0 s ago");
    is_int(1, scene_story.others, "of jobs that have ended, the newest one is told of");
    scene_call(scene_process(20, 0, 1, 0), scene_barrier, 30, 0);
    scene_told(HP_FLIGHT_WELL, -1, "no rank waits in a call");
    is_int(2, scene_story.others, "and where one lives, neither");
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    test_elsewhere();
    test_elsewhere_in_others();
    test_long_chain();
    test_crossed();
    test_crossed_split();
    test_circle_of_processes();
    test_circle_of_messages();
    test_group();
    test_jobs();
    scene_begin();
    return 0;
}
