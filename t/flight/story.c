/* SPDX-License-Identifier: MIT */
/*
 * story: jobs that hang in every way in which jobs hang, written down as recorders: the sentence names the late rank, its
 * call and what it does instead.
 */
#include "flight/story.h"

#include "t/flight/scene.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All ranks have finished a barrier; all but the last are in an allreduce. Returns the last one. */
static hp_flight *
last_is_late(void)
{
    hp_flight *f = NULL;
    scene_begin();
    for (int rank = 0; rank < RANKS; rank++) {
        f = scene_rank(rank, RANKS, WORLD);
        scene_call(f, scene_barrier, 32, 0);
        if (rank < RANKS - 1)
            scene_call(f, scene_allreduce(100), 30, 1);
    }
    return f;
}

#define SEVEN_WAIT "ranks 0-6 wait in operation 2 (allreduce of 100 x float32, sum); "
#define LAST_DID "rank 7 (node7, pid 1007) last finished operation 1 (barrier) 31.0 s ago"

static void
test_late(void)
{
    hp_flight *late = last_is_late();
    scene_told(HP_FLIGHT_LATE, 7, SEVEN_WAIT LAST_DID " and has not called since");
    late->head.called++;
    scene_told(HP_FLIGHT_LATE, 7,
               SEVEN_WAIT LAST_DID " and has called since, but no thread of it drives the communicator");
    late->head.called--;
    scene_all.entry[7].state = HP_FLIGHT_STOPPED;
    scene_told(HP_FLIGHT_LATE, 7, SEVEN_WAIT LAST_DID "; its process is stopped");
    scene_all.entry[7].state = HP_FLIGHT_ENDED;
    scene_told(HP_FLIGHT_LATE, 7, SEVEN_WAIT LAST_DID ", and then its process ended");
    late = last_is_late();
    late->count = 0;
    scene_told(HP_FLIGHT_LATE, 7,
               SEVEN_WAIT
               "rank 7 (node7, pid 1007) has finished no operation and has called since, but no thread of it "
               "drives the communicator");
    late = last_is_late();
    hp_flight_record *r =
        scene_call(late, (hp_call){.kind = HP_RECV, .dtype = HOOP_INT8, .root = 3, .count = 5}, 30, 1);
    r->sequence = 1;
    r->messages = 1;
    r->peer = 2;
    scene_told(HP_FLIGHT_CROSSED, 7,
               SEVEN_WAIT LAST_DID " and waits in recv of 5 x int8 (tag 3) from rank 2" SCENE_CIRCLE);
}

/* What has a name and a number is called by both. */
static void
test_call_names(void)
{
    hp_flight *late = last_is_late();
    late->record[0].call.name = "loss";
    for (size_t i = 0; i < RANKS - 1; i++)
        scene_all.entry[i].flight->record[1].call.name = "gradients";
    scene_told(
        HP_FLIGHT_LATE, 7,
        "ranks 0-6 wait in allreduce 2 (gradients); rank 7 (node7, pid 1007) last finished barrier 1 (loss) 31.0 s "
        "ago "
        "and has not called since");
}

static void
test_name(void)
{
    hp_flight *late = last_is_late();
    snprintf(late->head.name, sizeof(late->head.name), "gradients");
    scene_told(HP_FLIGHT_LATE, 7, "\"gradients\": " SEVEN_WAIT LAST_DID " and has not called since");
    scene_begin();
    snprintf(scene_rank(0, 1, WORLD)->head.name, sizeof(late->head.name), "gradients");
    scene_told(HP_FLIGHT_WELL, -1, "no rank waits in a call");
}

static void
test_several(void)
{
    scene_begin();
    for (int rank = 0; rank < RANKS; rank++) {
        hp_flight *f = scene_rank(rank, RANKS, WORLD);
        scene_call(f, scene_barrier, 32, 0);
        if (rank != 2 && rank != 5 && rank != 6)
            scene_call(f, scene_allreduce(100), 30, 1);
    }
    scene_told(HP_FLIGHT_LATE, 2,
               "ranks 0-1, 3-4 and 7 wait in operation 2 (allreduce of 100 x float32, sum); ranks 2 and 5-6 have not "
               "called it: rank 2 (node2, pid 1002) last finished operation 1 (barrier) 31.0 s ago and has not called "
               "since");
}

static void
test_difference(void)
{
    hp_flight *last = last_is_late();
    scene_call(last, scene_allreduce(101), 3, 1);
    scene_told(
        HP_FLIGHT_DIFFERENCE, -1,
        "as operation 2 rank 0 called allreduce of 100 x float32, sum, and rank 7 (node7, pid 1007) called allreduce "
        "of "
        "101 x float32, sum");
    is_uint(2, scene_story.difference, "... and says which is the first");
}

/* Rank 0 has called neither of the operations that others have called differently. */
static void
test_difference_of_others(void)
{
    scene_begin();
    for (int rank = 0; rank < 4; rank++) {
        hp_flight *f = scene_rank(rank, 4, WORLD);
        scene_call(f, scene_barrier, 32, 0);
        if (rank > 0)
            scene_call(f, scene_allreduce(rank == 3 ? 101 : 100), 30, 1);
    }
    scene_told(
        HP_FLIGHT_DIFFERENCE, -1,
        "as operation 2 rank 1 called allreduce of 100 x float32, sum, and rank 3 (node3, pid 1003) called allreduce "
        "of "
        "101 x float32, sum");
}

/* What no rank writes, but a damaged file may have. */
static void
test_no_order(void)
{
    hp_flight *late = last_is_late();
    late->record[0].sequence = 9;
    scene_call(late, scene_allreduce(100), 30, 1);
    scene_told(HP_FLIGHT_INSIDE, -1,
               "ranks 0-7 wait in operation 2 (allreduce of 100 x float32, sum), called 30.0 s ago");
}

/* What happened in the last second is at work, unless a process of it does nothing more. */
static void
test_recent(void)
{
    static const hp_flight_state idle[] = {HP_FLIGHT_STOPPED, HP_FLIGHT_ENDED};
    hp_flight *late = last_is_late();
    for (int rank = 0; rank < RANKS - 1; rank++)
        scene_all.entry[rank].flight->record[1].entered = SCENE_NOW - HP_SEC / 2;
    scene_told(HP_FLIGHT_WELL, -1, SCENE_GO_ON);
    scene_all.entry[RANKS - 1].state = HP_FLIGHT_UNKNOWN;
    scene_told(HP_FLIGHT_WELL, -1, SCENE_GO_ON);
    for (int i = 0; i < 2; i++) {
        scene_all.entry[RANKS - 1].state = idle[i];
        scene_told(HP_FLIGHT_LATE, 7,
                   i == 0 ? SEVEN_WAIT LAST_DID "; its process is stopped"
                          : SEVEN_WAIT LAST_DID ", and then its process ended");
    }
    late = last_is_late();
    late->record[0].left = SCENE_NOW - HP_SEC / 2;
    scene_told(HP_FLIGHT_WELL, -1, SCENE_GO_ON);
    scene_all.entry[0].flight->head.error_code = HOOP_ERR_TIMEOUT;
    scene_told(HP_FLIGHT_LATE, 7,
               SEVEN_WAIT
               "rank 7 (node7, pid 1007) last finished operation 1 (barrier) 0.5 s ago and has not called since");
    last_is_late();
    scene_all.entry[3].flight->record[1].last = SCENE_NOW - HP_SEC / 2;
    scene_told(HP_FLIGHT_WELL, -1, SCENE_GO_ON);
}

static void
test_split(void)
{
    hp_flight *last = last_is_late();
    last->head.split = 4;
    last->head.split_at = SCENE_NOW - 3 * HP_SEC;
    scene_told(
        HP_FLIGHT_SPLIT, -1,
        "rank 7 waits in hoop_comm_split number 4, called 3.0 s ago, and ranks 0-6 wait in operation 2 (allreduce "
        "of 100 x "
        "float32, sum)");
    for (int rank = 0; rank < RANKS - 1; rank++) {
        scene_all.entry[rank].flight->head.split = 5;
        scene_all.entry[rank].flight->head.split_at = SCENE_NOW - 2 * HP_SEC;
        scene_all.entry[rank].flight->count = 1;
    }
    last->head.split_at = 0;
    scene_told(HP_FLIGHT_SPLIT, 7,
               "ranks 0-6 wait in hoop_comm_split number 5, called 2.0 s ago; " LAST_DID " and has not called since");
}

static void
test_inside(void)
{
    scene_begin();
    for (int rank = 0; rank < 3; rank++)
        scene_call(scene_rank(rank, 3, WORLD), scene_barrier, 0, 1);
    scene_told(HP_FLIGHT_WELL, -1, SCENE_GO_ON);
    scene_begin();
    for (int rank = 0; rank < 3; rank++)
        scene_call(scene_rank(rank, 3, WORLD), scene_barrier, 30, 1);
    scene_all.entry[0].flight->record[0].wait = HP_WAIT_PEER;
    scene_all.entry[0].flight->record[0].awaited = 2;
    scene_told(HP_FLIGHT_INSIDE, -1,
               "ranks 0-2 wait in operation 1 (barrier), called 30.0 s ago; rank 0 waits for rank 2 to send data");
    scene_all.entry[2].state = HP_FLIGHT_STOPPED;
    scene_told(HP_FLIGHT_INSIDE, 2,
               "ranks 0-2 wait in operation 1 (barrier), called 30.0 s ago; of these, the process of rank 2 (node2, "
               "pid 1002) is stopped");
    scene_all.entry[2].state = HP_FLIGHT_ENDED;
    scene_all.entry[2].flight->record[0].left = SCENE_NOW;
    scene_told(HP_FLIGHT_INSIDE, 2,
               "ranks 0-1 wait in operation 1 (barrier), called 30.0 s ago; the process of rank 2 (node2, "
               "pid 1002) has "
               "ended");
    scene_begin();
    for (int rank = 0; rank < 4; rank++) {
        hp_flight *f = scene_rank(rank, 4, WORLD);
        scene_call(f, scene_barrier, 30, rank % 2 == 0);
        if (rank % 2)
            scene_call(f, scene_barrier, 29, 1);
    }
    scene_all.entry[2].state = HP_FLIGHT_STOPPED;
    scene_told(HP_FLIGHT_INSIDE, 2,
               "ranks 0 and 2 were in operation 1 (barrier), called 30.0 s ago, and ranks 1 and 3 in a later "
               "one; of these, the process of rank 2 (node2, pid 1002) is stopped");
    scene_begin();
    for (int rank = 0; rank < 2; rank++)
        scene_call(scene_rank(rank, 3, WORLD), scene_barrier, 30, 1);
    scene_told(HP_FLIGHT_INSIDE, -1,
               "ranks 0-1 wait in operation 1 (barrier), called 30.0 s ago; 1 of 3 ranks, first rank 2, left "
               "no recorder "
               "here: "
               "they left the communicator, are on other hosts, or have HOOP_RECORDER=0");
}

static void
awaits(int entry, hp_wait wait, int rank)
{
    hp_flight_record *r = &scene_all.entry[entry].flight->record[0];
    r->wait = wait;
    r->awaited = rank;
}

/* Rank 0 waits for the one before it, and so on: who is named is at the other end. */
static void
test_chain(void)
{
    scene_begin();
    for (int rank = 0; rank < 6; rank++) {
        scene_call(scene_rank(rank, 6, WORLD), scene_barrier, 30, 1);
        awaits(rank, HP_WAIT_PEER, (rank + 5) % 6);
    }
#define SIX_WAIT "ranks 0-5 wait in operation 1 (barrier), called 30.0 s ago; "
    scene_told(HP_FLIGHT_INSIDE, -1, SIX_WAIT "rank 0 waits for rank 5 to send data");
    awaits(3, HP_WAIT_NONE, -1);
    scene_told(HP_FLIGHT_INSIDE, -1, SIX_WAIT "rank 4 waits for rank 3 to send data");
    awaits(3, HP_WAIT_DEVICE, -1);
    awaits(4, HP_WAIT_LINK, 3);
    scene_told(HP_FLIGHT_INSIDE, -1, SIX_WAIT "rank 4 waits for rank 3 to take data");
    awaits(3, HP_WAIT_STREAM, -1);
    scene_told(HP_FLIGHT_INSIDE, -1, SIX_WAIT "rank 3 waits for its CUDA stream");
    awaits(3, HP_WAIT_PEER, 4);
    scene_told(HP_FLIGHT_INSIDE, -1, SIX_WAIT "rank 4 waits for rank 3 to take data");
    scene_begin();
    for (int rank = 0; rank < 3; rank++) {
        hp_flight *f = scene_rank(rank, 3, WORLD);
        scene_call(f, scene_barrier, 30, rank != 1);
        if (rank == 1)
            scene_call(f, scene_barrier, 29, 1)->awaited = 0;
    }
    awaits(0, HP_WAIT_PEER, 2);
    awaits(2, HP_WAIT_PEER, 1);
    scene_all.entry[1].flight->record[1].wait = HP_WAIT_PEER;
    scene_told(HP_FLIGHT_INSIDE, -1,
               "ranks 0 and 2 wait in operation 1 (barrier), called 30.0 s ago, and rank 1 in a later one; rank "
               "2 waits for "
               "rank 1 to send data");
}

/* Ranks 2 and 3 of 6 are on a host whose recorders are missing. */
static void
test_chain_to_missing(void)
{
    static const int ranks[] = {0, 1, 4, 5};
    scene_begin();
    for (int i = 0; i < 4; i++) {
        scene_call(scene_rank(ranks[i], 6, WORLD), scene_barrier, 30, 1);
        awaits(i, HP_WAIT_PEER, (ranks[i] + 5) % 6);
    }
#define FOUR_WAIT "ranks 0-1 and 4-5 wait in operation 1 (barrier), called 30.0 s ago; "
#define TWO_MISSING                                                                                                    \
    "; 2 of 6 ranks, first rank 2, left no recorder here: they left the communicator, are on other hosts, or have "    \
    "HOOP_RECORDER=0"
    scene_told(HP_FLIGHT_INSIDE, 3, FOUR_WAIT "rank 4 waits for rank 3, which left no recorder" TWO_MISSING);
    awaits(1, HP_WAIT_LINK, 2);
    scene_told(HP_FLIGHT_INSIDE, 3, FOUR_WAIT "rank 4 waits for rank 3, which left no recorder" TWO_MISSING);
    awaits(2, HP_WAIT_NONE, -1);
    scene_told(HP_FLIGHT_INSIDE, 2, FOUR_WAIT "rank 1 waits for rank 2, which left no recorder" TWO_MISSING);
    awaits(1, HP_WAIT_PEER, 0);
    awaits(0, HP_WAIT_PEER, 5);
    scene_told(HP_FLIGHT_INSIDE, -1, FOUR_WAIT "rank 5 waits for rank 4 to send data" TWO_MISSING);
    scene_all.entry[3].state = HP_FLIGHT_STOPPED;
    awaits(2, HP_WAIT_PEER, 3);
    scene_told(HP_FLIGHT_INSIDE, 5,
               FOUR_WAIT "of these, the process of rank 5 (node5, pid 1005) is stopped" TWO_MISSING);
}

/* The last rank was killed in the operation, and the others got an error. */
static void
test_failed(void)
{
    scene_begin();
    for (int rank = 0; rank < 3; rank++) {
        hp_flight *f = scene_rank(rank, 3, WORLD);
        scene_call(f, scene_barrier, 32, 0);
        if (rank == 2)
            continue;
        scene_call(f, scene_barrier, 30, 0)->result = HOOP_ERR_PEER_LOST;
        f->head.error_code = HOOP_ERR_PEER_LOST;
    }
    scene_all.entry[2].state = HP_FLIGHT_ENDED;
    scene_told(HP_FLIGHT_LATE, 2,
               "ranks 0-1 have failed in operation 2 (barrier); rank 2 (node2, pid 1002) last finished operation 1 "
               "(barrier) "
               "31.0 s ago, and then its process ended");
    scene_begin();
    for (int rank = 0; rank < 3; rank++) {
        hp_flight *f = scene_rank(rank, 3, WORLD);
        scene_call(f, scene_barrier, 30, rank == 1);
        scene_all.entry[rank].state = HP_FLIGHT_ENDED;
        if (rank == 1)
            continue;
        f->record[0].result = HOOP_ERR_PEER_LOST;
        f->head.error_code = HOOP_ERR_PEER_LOST;
    }
    scene_told(HP_FLIGHT_INSIDE, 1,
               "ranks 0-2 were in operation 1 (barrier), called 30.0 s ago; of these, the process of rank 1 (node1, "
               "pid 1001) has ended");
}

/* Rank 7 got an error in another communicator, so its process ended before it called what the others wait in. */
static void
test_failed_elsewhere(void)
{
#define TWO_RANKS " of 2 ranks, as rank 0"
    last_is_late();
    scene_all.entry[7].state = HP_FLIGHT_ENDED;
    hp_flight *f = scene_rank(0, 2, OTHER);
    scene_all.entry[RANKS].state = HP_FLIGHT_ENDED;
    f->head.pid = 1007;
    snprintf(f->head.host, sizeof(f->head.host), "node7");
    snprintf(f->head.name, sizeof(f->head.name), "beta");
    hp_flight_record *r = scene_call(f, scene_allreduce(7), 20, 0);
    scene_told(HP_FLIGHT_LATE, 7, SEVEN_WAIT LAST_DID ", and then its process ended");
    r->result = HOOP_ERR_PEER_LOST;
    scene_told(HP_FLIGHT_LATE, 7,
               SEVEN_WAIT LAST_DID
               " and failed in operation 1 (allreduce of 7 x float32, sum) of another communicator \"beta\"" TWO_RANKS);
    f->head.error_code = HOOP_ERR_PEER_LOST;
    r->call = (hp_call){.kind = HP_SEND, .dtype = HOOP_INT8, .root = 3, .count = 5};
    r->peer = 1;
    scene_told(HP_FLIGHT_LATE, 7,
               SEVEN_WAIT LAST_DID
               " and failed in send of 5 x int8 (tag 3) to rank 1 of another communicator \"beta\"" TWO_RANKS);
    f->count = 0;
    f->head.name[0] = '\0';
    scene_told(HP_FLIGHT_LATE, 7, SEVEN_WAIT LAST_DID " and failed in another communicator" TWO_RANKS);
    f->head.pid = 1008;
    scene_told(HP_FLIGHT_LATE, 7, SEVEN_WAIT LAST_DID ", and then its process ended");
}

static void
test_message(void)
{
    scene_begin();
    hp_flight_record *r = scene_call(scene_rank(0, 2, WORLD),
                                     (hp_call){.kind = HP_SEND, .dtype = HOOP_INT8, .root = 3, .count = 5}, 9, 1);
    r->sequence = 0;
    r->messages = 1;
    r->peer = 1;
    scene_call(scene_rank(1, 2, WORLD), scene_barrier, 20, 0);
    scene_told(
        HP_FLIGHT_MESSAGES, 1,
        "rank 0 (node0, pid 1000) waits in send of 5 x int8 (tag 3) to rank 1, called 9.0 s ago; rank 1 (node1, pid "
        "1001) "
        "last finished operation 1 (barrier) 19.0 s ago and has not called since");
}

/* The records of rank 7 hold only messages: the operations before have been overwritten. */
static void
test_only_messages(void)
{
    hp_flight *late = last_is_late();
    late->count = 0;
    hp_flight_record *r =
        scene_call(late, (hp_call){.kind = HP_SEND, .dtype = HOOP_INT8, .root = 3, .count = 5}, 30, 0);
    r->number = late->head.called;
    r->messages = 1;
    r->peer = 2;
    scene_told(HP_FLIGHT_LATE, 7,
               SEVEN_WAIT
               "rank 7 (node7, pid 1007) last called operation 1 and then messages and has not called since");
    r->sequence = 2;
    scene_told(HP_FLIGHT_INSIDE, -1,
               "ranks 0-6 wait in operation 2 (allreduce of 100 x float32, sum), called 30.0 s ago");
}

static void
test_well(void)
{
    scene_begin();
    scene_told(HP_FLIGHT_WELL, -1, "there is no recorder");
    scene_call(scene_rank(0, 2, WORLD), scene_barrier, 20, 0);
    scene_call(scene_rank(1, 2, WORLD), scene_barrier, 20, 0);
    scene_told(HP_FLIGHT_WELL, -1, "no rank waits in a call");
    scene_rank(0, 2, WORLD)->head.realtime++;
    scene_call(scene_all.entry[2].flight, scene_barrier, 10, 1);
    scene_told(HP_FLIGHT_INSIDE, -1, "rank 0 waits in operation 1 (barrier), called 10.0 s ago");
}

/* --- two readings --- */

/* Reads the recorders again, after `change` to that of the last rank. */
static void
read_again(void (*change)(hp_flight *last))
{
    hp_flight_collection earlier = scene_all;
    scene_all = (hp_flight_collection){0};
    for (size_t i = 0; i < earlier.count; i++) {
        hp_flight *f = scene_rank((int)i, RANKS, WORLD);
        *f = *earlier.entry[i].flight;
        scene_all.entry[i].state = earlier.entry[i].state;
    }
    if (change)
        change(scene_all.entry[scene_all.count - 1].flight);
    hp_flight_compare(&scene_all, &earlier);
    hp_flight_collection_free(&earlier);
}

static void
calls(hp_flight *f)
{
    f->head.called++;
}

static void
enters(hp_flight *f)
{
    scene_call(f, scene_allreduce(100), 0, 1);
    f->head.called--;
}

static void
ends(hp_flight *f)
{
    f->record[f->count - 1].left++;
}

static void
receives(hp_flight *f)
{
    f->record[f->count - 1].last++;
}

static void
is_writing(hp_flight *f)
{
    f->torn = 1;
}

static void
fails(hp_flight *f)
{
    f->head.error_code = HOOP_ERR_PEER_LOST;
}

static void
notes_wait(hp_flight *f)
{
    f->record[f->count - 1].wait = HP_WAIT_LINK;
    f->record[f->count - 1].awaited = 3;
}

static void
test_moves(void)
{
    static void (*const change[])(hp_flight *) = {calls, enters, ends, receives, is_writing};
    for (size_t i = 0; i < sizeof(change) / sizeof(change[0]); i++) {
        last_is_late();
        read_again(change[i]);
        scene_told(HP_FLIGHT_WELL, -1, SCENE_GO_ON);
    }
    static void (*const idle[])(hp_flight *) = {notes_wait, fails};
    for (size_t i = 0; i < sizeof(idle) / sizeof(idle[0]); i++) {
        last_is_late();
        read_again(idle[i]);
        scene_told(HP_FLIGHT_LATE, 7, SEVEN_WAIT LAST_DID " and has not called since");
    }
    scene_all.entry[7].state = HP_FLIGHT_STOPPED;
    read_again(ends);
    scene_told(HP_FLIGHT_LATE, 7, SEVEN_WAIT LAST_DID "; its process is stopped");
    last_is_late()->record[0].call = scene_allreduce(5);
    read_again(ends);
    scene_tell();
    is_int(HP_FLIGHT_DIFFERENCE, scene_story.plot, "what ranks have called is true of ranks that go on, too");
    last_is_late();
    scene_all.entry[0].flight->head.pid++;
    hp_flight_collection nothing = {0};
    hp_flight_compare(&scene_all, &nothing);
    scene_told(HP_FLIGHT_WELL, -1, SCENE_GO_ON);
}

/* One rank moves still, but another one does nothing more: that is told. */
static void
test_moves_beside(void)
{
    last_is_late();
    scene_all.entry[0].state = HP_FLIGHT_MOVES;
    scene_told(HP_FLIGHT_WELL, -1, SCENE_GO_ON);
    scene_all.entry[7].state = HP_FLIGHT_STOPPED;
    scene_told(HP_FLIGHT_LATE, 7, SEVEN_WAIT LAST_DID "; its process is stopped");
    scene_all.entry[7].state = HP_FLIGHT_ENDED;
    scene_told(HP_FLIGHT_LATE, 7, SEVEN_WAIT LAST_DID ", and then its process ended");
}

/* By a clock that is behind, what is in the future may be old. */
static void
test_future(void)
{
    hp_flight *late = last_is_late();
    for (int rank = 0; rank < RANKS; rank++) {
        scene_all.entry[rank].state = HP_FLIGHT_UNKNOWN;
        scene_all.entry[rank].looked -= 60 * HP_SEC;
    }
    late->record[0].left = late->record[0].entered;
    scene_told(HP_FLIGHT_LATE, 7,
               SEVEN_WAIT
               "rank 7 (node7, pid 1007) last finished operation 1 (barrier) 0.0 s ago and has not called since");
}

/* The late rank is in a second communicator, which goes on. */
static void
test_moves_elsewhere(void)
{
    last_is_late();
    scene_call(scene_process(7, 0, 2, OTHER), scene_barrier, 20, 1);
    scene_told(HP_FLIGHT_LATE, 7,
               SEVEN_WAIT LAST_DID " and waits in operation 1 (barrier) of another communicator of 2 ranks, as rank 0");
    scene_all.entry[RANKS].flight->record[0].entered = SCENE_NOW - HP_SEC / 2;
    scene_told(HP_FLIGHT_LATE, 7, SEVEN_WAIT LAST_DID " and is at work in another communicator");
    scene_all.entry[RANKS].flight->record[0].entered = SCENE_NOW - 20 * HP_SEC;
    scene_all.entry[RANKS].state = HP_FLIGHT_MOVES;
    scene_told(HP_FLIGHT_LATE, 7, SEVEN_WAIT LAST_DID " and is at work in another communicator");
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    test_late();
    test_call_names();
    test_name();
    test_several();
    test_difference();
    test_difference_of_others();
    test_no_order();
    test_recent();
    test_split();
    test_inside();
    test_chain();
    test_chain_to_missing();
    test_failed();
    test_failed_elsewhere();
    test_message();
    test_only_messages();
    test_well();
    test_moves();
    test_moves_beside();
    test_future();
    test_moves_elsewhere();
    scene_begin();
    return 0;
}
