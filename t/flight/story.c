/* SPDX-License-Identifier: MIT */
/*
 * story: jobs that hang in every way in which jobs hang, written down as recorders: the sentence names the late rank, its
 * call and what it does instead.
 */
#include "flight/story.h"

#include "base/clock.h"
#include "base/mem.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOW (100 * HP_SEC)
#define DATE (UINT64_C(1700000000) * HP_SEC)

enum { RANKS = 8, WORLD = 77, OTHER = 78 };

static hp_flight_collection all;
static hp_flight_rings rings;
static hp_flight_story story;

/* --- recorders by hand --- */

static hp_flight *
rank_of(int rank, int size, uint64_t comm)
{
    hp_flight *f = hp_alloc(1, sizeof(*f));
    hp_flight_entry *grown = realloc(all.entry, (all.count + 1) * sizeof(*grown));
    if (!f || !grown)
        bail("out of memory");
    all.entry = grown;
    all.entry[all.count++] = (hp_flight_entry){.flight = f, .state = HP_FLIGHT_RUNS, .looked = DATE + NOW};
    f->head = (hp_flight_head){.pid = 1000 + (uint32_t)rank,
                               .started = 5,
                               .pid_space = 6,
                               .rank = rank,
                               .size = size,
                               .comm = comm,
                               .realtime = DATE,
                               .job = "train"};
    snprintf(f->head.host, sizeof(f->head.host), "node%d", rank);
    return f;
}

static hp_call
allreduce_of(uint64_t count)
{
    return (hp_call){.kind = HP_ALLREDUCE, .dtype = HOOP_FLOAT32, .op = HOOP_SUM, .root = -1, .count = count};
}

static const hp_call barrier = {.kind = HP_BARRIER, .dtype = HOOP_UINT8, .op = HOOP_SUM, .root = -1};

/* Called `ago` seconds before NOW; it lasted a second, unless it is open. */
static hp_flight_record *
call(hp_flight *f, hp_call what, double ago, int open)
{
    hp_flight_record *r = &f->record[f->count];
    uint64_t entered = NOW - (uint64_t)(ago * 1e9);
    *r = (hp_flight_record){.number = (uint64_t)f->count + 1,
                            .sequence = (uint64_t)f->count + 1,
                            .call = what,
                            .entered = entered,
                            .left = open ? 0 : entered + HP_SEC,
                            .calls = 1,
                            .peer = -1,
                            .awaited = -1};
    f->count++;
    f->head.called++;
    return r;
}

static void
begin(void)
{
    hp_flight_rings_free(&rings);
    hp_flight_collection_free(&all);
}

static void
told(hp_flight_plot plot, int late, const char *text)
{
    hp_flight_rings_free(&rings);
    if (!hp_flight_rings_make(&rings, &all))
        bail("out of memory");
    hp_flight_tell(&rings, &story);
    is_string(text, story.text, "%s", text);
    ok(story.plot == plot && story.late == late, "... plot %d, rank %d is late", (int)story.plot, story.late);
}

/* All ranks have finished a barrier; all but the last are in an allreduce. Returns the last one. */
static hp_flight *
last_is_late(void)
{
    hp_flight *f = NULL;
    begin();
    for (int rank = 0; rank < RANKS; rank++) {
        f = rank_of(rank, RANKS, WORLD);
        call(f, barrier, 32, 0);
        if (rank < RANKS - 1)
            call(f, allreduce_of(100), 30, 1);
    }
    return f;
}

#define SEVEN_WAIT "ranks 0 to 6 wait in operation 2 (allreduce of 100 x float32, sum); "
#define LAST_DID "rank 7 (node7, pid 1007) last finished operation 1 (barrier) 31.0 s ago"

static void
test_late(void)
{
    hp_flight *late = last_is_late();
    told(HP_FLIGHT_LATE, 7, SEVEN_WAIT LAST_DID " and has not called since");
    late->head.called++;
    told(HP_FLIGHT_LATE, 7, SEVEN_WAIT LAST_DID " and has called since, but no thread of it drives the communicator");
    late->head.called--;
    all.entry[7].state = HP_FLIGHT_STOPPED;
    told(HP_FLIGHT_LATE, 7, SEVEN_WAIT LAST_DID "; its process is stopped");
    all.entry[7].state = HP_FLIGHT_ENDED;
    told(HP_FLIGHT_LATE, 7, SEVEN_WAIT LAST_DID ", and then its process ended");
    late = last_is_late();
    late->count = 0;
    told(HP_FLIGHT_LATE, 7,
         SEVEN_WAIT "rank 7 (node7, pid 1007) has finished no operation and has called since, but no thread of it "
                    "drives the communicator");
    late = last_is_late();
    hp_flight_record *r = call(late, (hp_call){.kind = HP_RECV, .dtype = HOOP_INT8, .root = 3, .count = 5}, 30, 1);
    r->sequence = 1;
    r->messages = 1;
    r->peer = 2;
    told(HP_FLIGHT_LATE, 7, SEVEN_WAIT LAST_DID " and waits in recv of 5 x int8 (tag 3) from rank 2");
}

/* What has a name and a number is called by both. */
static void
test_call_names(void)
{
    hp_flight *late = last_is_late();
    late->record[0].call.name = "loss";
    for (size_t i = 0; i < RANKS - 1; i++)
        all.entry[i].flight->record[1].call.name = "gradients";
    told(HP_FLIGHT_LATE, 7,
         "ranks 0 to 6 wait in allreduce 2 (gradients); rank 7 (node7, pid 1007) last finished barrier 1 (loss) 31.0 s "
         "ago "
         "and has not called since");
}

static void
test_name(void)
{
    hp_flight *late = last_is_late();
    snprintf(late->head.name, sizeof(late->head.name), "gradients");
    told(HP_FLIGHT_LATE, 7, "\"gradients\": " SEVEN_WAIT LAST_DID " and has not called since");
    begin();
    snprintf(rank_of(0, 1, WORLD)->head.name, sizeof(late->head.name), "gradients");
    told(HP_FLIGHT_WELL, -1, "no rank waits in a call");
}

static void
test_several(void)
{
    begin();
    for (int rank = 0; rank < RANKS; rank++) {
        hp_flight *f = rank_of(rank, RANKS, WORLD);
        call(f, barrier, 32, 0);
        if (rank != 2 && rank != 5 && rank != 6)
            call(f, allreduce_of(100), 30, 1);
    }
    told(HP_FLIGHT_LATE, 2,
         "ranks 0, 1, 3, 4 and 7 wait in operation 2 (allreduce of 100 x float32, sum); ranks 2, 5 and 6 have not "
         "called it: rank 2 (node2, pid 1002) last finished operation 1 (barrier) 31.0 s ago and has not called since");
}

static void
test_difference(void)
{
    hp_flight *last = last_is_late();
    call(last, allreduce_of(101), 3, 1);
    told(HP_FLIGHT_DIFFERENCE, -1,
         "as operation 2 rank 0 called allreduce of 100 x float32, sum, and rank 7 (node7, pid 1007) called allreduce "
         "of "
         "101 x float32, sum");
    is_uint(2, story.difference, "... and says which is the first");
}

static void
test_split(void)
{
    hp_flight *last = last_is_late();
    last->head.split = 4;
    last->head.split_at = NOW - 3 * HP_SEC;
    told(HP_FLIGHT_SPLIT, -1,
         "rank 7 waits in hoop_comm_split number 4, called 3.0 s ago, and ranks 0 to 6 wait in operation 2 (allreduce "
         "of 100 x "
         "float32, sum)");
}

/* Rank 0 is in the first communicator, rank 1 in the second, and each has to call the other's first. */
static void
test_crossed(void)
{
    begin();
    call(rank_of(0, 2, WORLD), barrier, 30, 1);
    rank_of(1, 2, WORLD);
    rank_of(0, 2, OTHER);
    call(rank_of(1, 2, OTHER), allreduce_of(7), 20, 1);
    told(HP_FLIGHT_CROSSED, 1,
         "rank 0 waits in operation 1 (barrier); rank 1 (node1, pid 1001) has finished no operation and waits in "
         "operation "
         "1 (allreduce of 7 x float32, sum) of another communicator of 2 ranks, as rank 1");
}

static void
test_inside(void)
{
    begin();
    for (int rank = 0; rank < 3; rank++)
        call(rank_of(rank, 3, WORLD), barrier, 0, 1);
    told(HP_FLIGHT_INSIDE, -1, "ranks 0 to 2 are in operation 1 (barrier), called 0.0 s ago");
    begin();
    for (int rank = 0; rank < 3; rank++)
        call(rank_of(rank, 3, WORLD), barrier, 30, 1);
    all.entry[0].flight->record[0].wait = HP_FLIGHT_RECEIVES;
    all.entry[0].flight->record[0].awaited = 2;
    told(HP_FLIGHT_INSIDE, -1,
         "ranks 0 to 2 wait in operation 1 (barrier), called 30.0 s ago; rank 0 waits for rank 2 to send data");
    all.entry[2].state = HP_FLIGHT_STOPPED;
    told(HP_FLIGHT_INSIDE, 2,
         "ranks 0 to 2 wait in operation 1 (barrier), called 30.0 s ago; the process of rank 2 (node2, pid 1002) is "
         "stopped");
    all.entry[2].state = HP_FLIGHT_ENDED;
    all.entry[2].flight->record[0].left = NOW;
    told(HP_FLIGHT_INSIDE, 2,
         "ranks 0 and 1 wait in operation 1 (barrier), called 30.0 s ago; the process of rank 2 (node2, pid 1002) has "
         "ended");
    begin();
    for (int rank = 0; rank < 4; rank++) {
        hp_flight *f = rank_of(rank, 4, WORLD);
        call(f, barrier, 30, rank % 2 == 0);
        if (rank % 2)
            call(f, barrier, 29, 1);
    }
    all.entry[2].state = HP_FLIGHT_STOPPED;
    told(
        HP_FLIGHT_INSIDE, 2,
        "ranks 0 and 2 were in operation 1 (barrier), called 30.0 s ago, and ranks 1 and 3 in a later one; the process "
        "of rank 2 (node2, pid 1002) is stopped");
    begin();
    for (int rank = 0; rank < 2; rank++)
        call(rank_of(rank, 3, WORLD), barrier, 30, 1);
    told(HP_FLIGHT_INSIDE, -1,
         "ranks 0 and 1 wait in operation 1 (barrier), called 30.0 s ago; 1 of 3 ranks, first rank 2, left no recorder "
         "here: "
         "they left the communicator, are on other hosts, or have HOOP_RECORDER=0");
}

static void
awaits(int entry, hp_flight_wait wait, int rank)
{
    hp_flight_record *r = &all.entry[entry].flight->record[0];
    r->wait = wait;
    r->awaited = rank;
}

/* Rank 0 waits for the one before it, and so on: who is named is at the other end. */
static void
test_chain(void)
{
    begin();
    for (int rank = 0; rank < 6; rank++) {
        call(rank_of(rank, 6, WORLD), barrier, 30, 1);
        awaits(rank, HP_FLIGHT_RECEIVES, (rank + 5) % 6);
    }
#define SIX_WAIT "ranks 0 to 5 wait in operation 1 (barrier), called 30.0 s ago; "
    told(HP_FLIGHT_INSIDE, -1, SIX_WAIT "rank 0 waits for rank 5 to send data");
    awaits(3, HP_FLIGHT_NOTHING, -1);
    told(HP_FLIGHT_INSIDE, -1, SIX_WAIT "rank 4 waits for rank 3 to send data");
    awaits(3, HP_FLIGHT_DEVICE, -1);
    awaits(4, HP_FLIGHT_SENDS, 3);
    told(HP_FLIGHT_INSIDE, -1, SIX_WAIT "rank 4 waits for rank 3 to take data");
    awaits(3, HP_FLIGHT_STREAM, -1);
    told(HP_FLIGHT_INSIDE, -1, SIX_WAIT "rank 3 waits for its CUDA stream");
    awaits(3, HP_FLIGHT_RECEIVES, 4);
    told(HP_FLIGHT_INSIDE, -1, SIX_WAIT "rank 4 waits for rank 3 to take data");
    begin();
    for (int rank = 0; rank < 3; rank++) {
        hp_flight *f = rank_of(rank, 3, WORLD);
        call(f, barrier, 30, rank != 1);
        if (rank == 1)
            call(f, barrier, 29, 1)->awaited = 0;
    }
    awaits(0, HP_FLIGHT_RECEIVES, 2);
    awaits(2, HP_FLIGHT_RECEIVES, 1);
    all.entry[1].flight->record[1].wait = HP_FLIGHT_RECEIVES;
    told(HP_FLIGHT_INSIDE, -1,
         "ranks 0 and 2 wait in operation 1 (barrier), called 30.0 s ago, and rank 1 in a later one; rank 2 waits for "
         "rank 1 to send data");
}

/* Ranks 2 and 3 of 6 are on a host whose recorders are missing. */
static void
test_chain_to_missing(void)
{
    static const int ranks[] = {0, 1, 4, 5};
    begin();
    for (int i = 0; i < 4; i++) {
        call(rank_of(ranks[i], 6, WORLD), barrier, 30, 1);
        awaits(i, HP_FLIGHT_RECEIVES, (ranks[i] + 5) % 6);
    }
#define FOUR_WAIT "ranks 0, 1, 4 and 5 wait in operation 1 (barrier), called 30.0 s ago; "
#define TWO_MISSING                                                                                                    \
    "; 2 of 6 ranks, first rank 2, left no recorder here: they left the communicator, are on other hosts, or have "    \
    "HOOP_RECORDER=0"
    told(HP_FLIGHT_INSIDE, 3, FOUR_WAIT "rank 4 waits for rank 3, which left no recorder" TWO_MISSING);
    awaits(1, HP_FLIGHT_SENDS, 2);
    told(HP_FLIGHT_INSIDE, 3, FOUR_WAIT "rank 4 waits for rank 3, which left no recorder" TWO_MISSING);
    awaits(2, HP_FLIGHT_NOTHING, -1);
    told(HP_FLIGHT_INSIDE, 2, FOUR_WAIT "rank 1 waits for rank 2, which left no recorder" TWO_MISSING);
    awaits(1, HP_FLIGHT_RECEIVES, 0);
    awaits(0, HP_FLIGHT_RECEIVES, 5);
    told(HP_FLIGHT_INSIDE, -1, FOUR_WAIT "rank 5 waits for rank 4 to send data" TWO_MISSING);
    all.entry[3].state = HP_FLIGHT_STOPPED;
    awaits(2, HP_FLIGHT_RECEIVES, 3);
    told(HP_FLIGHT_INSIDE, 5, FOUR_WAIT "the process of rank 5 (node5, pid 1005) is stopped" TWO_MISSING);
}

/* The last rank was killed in the operation, and the others got an error. */
static void
test_failed(void)
{
    begin();
    for (int rank = 0; rank < 3; rank++) {
        hp_flight *f = rank_of(rank, 3, WORLD);
        call(f, barrier, 32, 0);
        if (rank == 2)
            continue;
        call(f, barrier, 30, 0)->result = HOOP_ERR_PEER_LOST;
        f->head.error_code = HOOP_ERR_PEER_LOST;
    }
    all.entry[2].state = HP_FLIGHT_ENDED;
    told(HP_FLIGHT_LATE, 2,
         "ranks 0 and 1 have failed in operation 2 (barrier); rank 2 (node2, pid 1002) last finished operation 1 "
         "(barrier) "
         "31.0 s ago, and then its process ended");
    begin();
    for (int rank = 0; rank < 3; rank++) {
        hp_flight *f = rank_of(rank, 3, WORLD);
        call(f, barrier, 30, rank == 1);
        all.entry[rank].state = HP_FLIGHT_ENDED;
        if (rank == 1)
            continue;
        f->record[0].result = HOOP_ERR_PEER_LOST;
        f->head.error_code = HOOP_ERR_PEER_LOST;
    }
    told(HP_FLIGHT_INSIDE, 1,
         "ranks 0 to 2 were in operation 1 (barrier), called 30.0 s ago; the process of rank 1 (node1, pid 1001) has "
         "ended");
}

/* Rank 7 got an error in another communicator, so its process ended before it called what the others wait in. */
static void
test_failed_elsewhere(void)
{
#define TWO_RANKS " of 2 ranks, as rank 0"
    last_is_late();
    all.entry[7].state = HP_FLIGHT_ENDED;
    hp_flight *f = rank_of(0, 2, OTHER);
    all.entry[RANKS].state = HP_FLIGHT_ENDED;
    f->head.pid = 1007;
    snprintf(f->head.host, sizeof(f->head.host), "node7");
    snprintf(f->head.name, sizeof(f->head.name), "beta");
    hp_flight_record *r = call(f, allreduce_of(7), 20, 0);
    told(HP_FLIGHT_LATE, 7, SEVEN_WAIT LAST_DID ", and then its process ended");
    r->result = HOOP_ERR_PEER_LOST;
    told(HP_FLIGHT_LATE, 7,
         SEVEN_WAIT LAST_DID
         " and failed in operation 1 (allreduce of 7 x float32, sum) of another communicator \"beta\"" TWO_RANKS);
    f->head.error_code = HOOP_ERR_PEER_LOST;
    r->call = (hp_call){.kind = HP_SEND, .dtype = HOOP_INT8, .root = 3, .count = 5};
    r->peer = 1;
    told(HP_FLIGHT_LATE, 7,
         SEVEN_WAIT LAST_DID
         " and failed in send of 5 x int8 (tag 3) to rank 1 of another communicator \"beta\"" TWO_RANKS);
    f->count = 0;
    f->head.name[0] = '\0';
    told(HP_FLIGHT_LATE, 7, SEVEN_WAIT LAST_DID " and failed in another communicator" TWO_RANKS);
    f->head.pid = 1008;
    told(HP_FLIGHT_LATE, 7, SEVEN_WAIT LAST_DID ", and then its process ended");
}

static void
test_message(void)
{
    begin();
    hp_flight_record *r =
        call(rank_of(0, 2, WORLD), (hp_call){.kind = HP_SEND, .dtype = HOOP_INT8, .root = 3, .count = 5}, 9, 1);
    r->sequence = 0;
    r->messages = 1;
    r->peer = 1;
    call(rank_of(1, 2, WORLD), barrier, 20, 0);
    told(HP_FLIGHT_MESSAGES, 1,
         "rank 0 (node0, pid 1000) waits in send of 5 x int8 (tag 3) to rank 1, called 9.0 s ago; rank 1 (node1, pid "
         "1001) "
         "last finished operation 1 (barrier) 19.0 s ago and has not called since");
}

static void
test_well(void)
{
    begin();
    told(HP_FLIGHT_WELL, -1, "there is no recorder");
    call(rank_of(0, 2, WORLD), barrier, 20, 0);
    call(rank_of(1, 2, WORLD), barrier, 20, 0);
    told(HP_FLIGHT_WELL, -1, "no rank waits in a call");
    rank_of(0, 2, WORLD)->head.realtime++;
    call(all.entry[2].flight, barrier, 10, 1);
    told(HP_FLIGHT_INSIDE, -1, "rank 0 waits in operation 1 (barrier), called 10.0 s ago");
}

/* --- two readings --- */

#define GO_ON "the ranks go on: they have called, or moved data, while their recorders were read"

/* Reads the recorders again, after `change` to that of the last rank. */
static void
read_again(void (*change)(hp_flight *last))
{
    hp_flight_collection earlier = all;
    all = (hp_flight_collection){0};
    for (size_t i = 0; i < earlier.count; i++) {
        hp_flight *f = rank_of((int)i, RANKS, WORLD);
        *f = *earlier.entry[i].flight;
        all.entry[i].state = earlier.entry[i].state;
    }
    if (change)
        change(all.entry[all.count - 1].flight);
    hp_flight_compare(&all, &earlier);
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
    call(f, allreduce_of(100), 0, 1);
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
    f->record[f->count - 1].wait = HP_FLIGHT_SENDS;
    f->record[f->count - 1].awaited = 3;
}

static void
test_moves(void)
{
    static void (*const change[])(hp_flight *) = {calls, enters, ends, receives, is_writing, fails};
    for (size_t i = 0; i < sizeof(change) / sizeof(change[0]); i++) {
        last_is_late();
        read_again(change[i]);
        told(HP_FLIGHT_WELL, -1, GO_ON);
    }
    last_is_late();
    read_again(notes_wait);
    told(HP_FLIGHT_LATE, 7, SEVEN_WAIT LAST_DID " and has not called since");
    all.entry[7].state = HP_FLIGHT_STOPPED;
    read_again(ends);
    told(HP_FLIGHT_LATE, 7, SEVEN_WAIT LAST_DID "; its process is stopped");
    last_is_late()->record[0].call = allreduce_of(5);
    read_again(ends);
    if (!hp_flight_rings_make(&rings, &all))
        bail("out of memory");
    hp_flight_tell(&rings, &story);
    is_int(HP_FLIGHT_DIFFERENCE, story.plot, "what ranks have called is true of ranks that go on, too");
    last_is_late();
    all.entry[0].flight->head.pid++;
    hp_flight_collection nothing = {0};
    hp_flight_compare(&all, &nothing);
    told(HP_FLIGHT_WELL, -1, GO_ON);
}

/* The late rank is in a second communicator, which goes on. */
static void
test_moves_elsewhere(void)
{
    last_is_late();
    hp_flight *f = rank_of(0, 2, OTHER);
    f->head.pid = 1007;
    snprintf(f->head.host, sizeof(f->head.host), "node7");
    call(f, barrier, 20, 1);
    told(HP_FLIGHT_CROSSED, 7,
         SEVEN_WAIT LAST_DID " and waits in operation 1 (barrier) of another communicator of 2 ranks, as rank 0");
    all.entry[RANKS].state = HP_FLIGHT_MOVES;
    told(HP_FLIGHT_LATE, 7, SEVEN_WAIT LAST_DID " and has not called since");
}

int
main(void)
{
    tap_limit(60);
    plan_lazy();
    test_late();
    test_call_names();
    test_name();
    test_several();
    test_difference();
    test_split();
    test_crossed();
    test_inside();
    test_chain();
    test_chain_to_missing();
    test_failed();
    test_failed_elsewhere();
    test_message();
    test_well();
    test_moves();
    test_moves_elsewhere();
    begin();
    return 0;
}
