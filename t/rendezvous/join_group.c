/* SPDX-License-Identifier: MIT */
/*
 * join_group: ranks join in any order; one is missing, comes twice, or has other settings; and a split cuts a ring. The
 * calls go through the job, as the server makes them.
 */
#include "base/clock.h"
#include "base/err.h"
#include "t/rendezvous/sim.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEEDS = 300 };

/* The ring order, worked out the slow way: hosts by their lowest rank, then ranks by number. */
static void
reference_order(const hp_member *members, int n, int *order)
{
    int at = 0;
    for (int first = 0; first < n; first++) {
        int seen = 0;
        for (int i = 0; i < first; i++)
            seen |= members[i].host_id == members[first].host_id;
        for (int i = first; i < n && !seen; i++)
            if (members[i].host_id == members[first].host_id)
                order[at++] = i;
    }
}

static int
same_ring(const hp_ring *a, const hp_ring *b)
{
    int same =
        a->comm == b->comm && a->size == b->size && memcmp(a->order, b->order, (size_t)a->size * sizeof(int)) == 0;
    for (int i = 0; same && i < a->size; i++)
        same = a->members[i].pid == b->members[i].pid && a->members[i].host_id == b->members[i].host_id;
    return same;
}

/* What conn g of `n`, who wanted `rank` (-1: any) and has pid g + 1, was told of the ring that all are in. */
static int
is_in_ring(int world, const sim *s, int g, int n, int rank)
{
    const hp_ring *ring = &s->conns[0].ring;
    const sim_conn *conn = &s->conns[g];
    return case_int(1, conn->joined, "world %d of %d ranks: rosters of conn %d", world, n, g) &&
           case_ok(same_ring(ring, &conn->ring), "world %d of %d ranks: conn %d has another ring than conn 0", world, n,
                   g) &&
           case_ok(rank < 0 || conn->rank == rank, "world %d of %d ranks: conn %d wanted rank %d, got %d", world, n, g,
                   rank, conn->rank) &&
           case_int(g + 1, ring->members[conn->rank].pid, "world %d of %d ranks: pid of conn %d, rank %d", world, n, g,
                    conn->rank);
}

static int
one_world(int world)
{
    sim s;
    int n = 1 + (int)(tap_random() % 20), hosts = 1 + (int)(tap_random() % 4), good = 1;
    int ranks[SIM_MAX], order[SIM_MAX];
    tap_shuffle(ranks, n);
    sim_open(&s);
    for (int g = 0; g < n; g++) {
        hp_join join = sim_join_of(ranks[g], n, 1);
        join.member.host_id = tap_random() % (uint64_t)hosts;
        join.member.pid = (uint32_t)g + 1;
        if (tap_random() % 3 == 0)
            join.member.rank = ranks[g] = -1;
        good &= case_int(0, sim_join(&s, g, &join), "world %d of %d ranks: JOIN %d, as rank %d", world, n, g, ranks[g]);
        good &= case_int(g == n - 1, s.conns[0].joined, "world %d of %d ranks: rosters of conn 0 after %d JOINs", world,
                         n, g + 1);
    }
    for (int g = 0; g < n && good; g++)
        good = is_in_ring(world, &s, g, n, ranks[g]);
    const hp_ring *ring = &s.conns[0].ring;
    if (good)
        reference_order(ring->members, n, order);
    for (int i = 0; i < n && good; i++)
        good = case_int(order[i], ring->order[i], "world %d of %d ranks on %d hosts: position %d of the ring", world, n,
                        hosts, i);
    good = good && case_ok(ring->comm != 0, "world %d of %d ranks: the communicator has no number", world, n);
    sim_close(&s);
    return good;
}

static void
test_orders(void)
{
    int good = 0;
    for (int i = 0; i < SEEDS; i++)
        good += one_world(i);
    is_int(SEEDS, good, "%d random worlds: any order of arrival, given and free ranks, hosts adjacent", SEEDS);
}

static void
test_missing(void)
{
    sim s;
    sim_open(&s);
    for (int i = 0; i < 8; i++) {
        hp_join join = sim_join_of(i, 8, 2);
        if (i != 3 && i < 5)
            sim_join(&s, i, &join);
        sim_pass(&s, 100);
    }
    sim_pass(&s, 4100);
    is_int(0, sim_told(&s, 8, -1, HOOP_ERR_RENDEZVOUS, -1), "nothing before the first comer's time-out");
    sim_pass(&s, 150);
    is_int(4, sim_told(&s, 8, -1, HOOP_ERR_RENDEZVOUS, -1), "at the time-out all who wait are told");
    is_string("ranks 3 and 5-7 of 8 did not join within 5.0 s; 4 ranks on node1, node2, node3 are waiting",
              s.conns[4].cause.text, "exactly the missing ranks");
    is_int(HP_REFUSED, s.conns[4].cause_type, "as a refusal");
    is_int(1, s.conns[4].disconnected, "and good-bye");
    is_int(1, s.failures, "the owner hears of it once");
    is_string(s.conns[4].cause.text, s.failure.text, "in the same words");
    for (int i = 0; i < 5; i++)
        sim_lose(&s, i);
    hp_join late = sim_join_of(3, 8, 2);
    sim_join(&s, 3, &late);
    is_int(0, s.conns[3].causes, "who comes after that begins anew");
    sim_pass(&s, 5050);
    is_string("ranks 0-2 and 4-7 of 8 did not join within 5.0 s; 1 rank on node2 is waiting", s.conns[3].cause.text,
              "and is told the same way");
    sim_close(&s);
    sim_open(&s);
    hp_join anyone = sim_join_of(-1, 3, 1);
    sim_join(&s, 0, &anyone);
    sim_pass(&s, 5050);
    is_string("2 of 3 ranks did not join within 5.0 s; 1 rank on node1 is waiting", s.conns[0].cause.text,
              "where the server gives the ranks, their number");
    sim_close(&s);
    sim_open(&s);
    for (int i = 0; i < 7; i++) {
        hp_join join = sim_join_of(i, 8, 2);
        sim_join(&s, i, &join);
    }
    sim_pass(&s, 5050);
    is_int(7, sim_told(&s, 8, -1, HOOP_ERR_RENDEZVOUS, 7), "a single missing rank is in error.rank");
    sim_close(&s);
}

static void
test_come_and_go(void)
{
    sim s;
    sim_open(&s);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 3; i++) {
            hp_join join = sim_join_of(i, 4, 1);
            sim_join(&s, i, &join);
            if (round < 2)
                sim_lose(&s, i);
        }
    hp_join last = sim_join_of(3, 4, 1);
    sim_join(&s, 3, &last);
    is_int(1, s.conns[0].joined, "a connection that broke before all had met may come again");
    is_int(0, s.conns[0].causes, "and harms nobody");
    sim_close(&s);
}

/* Its split's connection was reset: the rank takes its own place, and only its own. */
static void
test_split_reset(void)
{
    enum { N = 3 };
    sim s;
    hp_join join = {0};
    sim_open(&s);
    sim_world(&s, N, 1);
    for (int i = 0; i < N - 1; i++) {
        join = (hp_join){.member = s.conns[i].ring.members[i], .patience = 20000, .parent = s.conns[0].ring.comm};
        join.parent_rank = i;
        join.parent_size = N;
        join.size = N;
        join.split = 1;
        join.epoch = 77; /* its number */
        join.agree = "slice=1\n";
        join.agree_n = 8;
        sim_join(&s, 10 + i, &join);
    }
    sim_break(&s, 11);
    sim_pass(&s, 4900);
    is_int(0, s.conns[10].causes, "a rank whose connection was reset in a split may dial again");
    is_int(0, sim_join(&s, 21, &join), "it does");
    is_int(0, s.conns[21].causes, "and has its place again");
    join.epoch = 78;
    sim_join(&s, 22, &join);
    is_int(HP_REFUSED, s.conns[22].cause_type, "another JOIN of the same rank has not");
    sim_break(&s, 21);
    sim_pass(&s, 5050);
    ok(strstr(s.conns[10].cause.text, "rank 1 (node2, pid 801) vanished while the communicator was being split") !=
           NULL,
       "one that does not come back has vanished: %s", s.conns[10].cause.text);
    sim_close(&s);
}

static void
come(sim *s, int g, int rank, int size)
{
    hp_join join = sim_join_of(rank, size, 1);
    sim_join(s, g, &join);
}

static void
test_ended(void)
{
    static const char sentence[] = "rank 1 (node2) ended before all ranks had joined; does the program "
                                   "call hoop_comm_create on every rank?";
    sim s;
    sim_open(&s);
    come(&s, 0, 0, 4);
    come(&s, 2, 2, 4);
    hp_job_ended(s.job, 1, 4, "node2", s.now);
    is_int(2, sim_told(&s, 4, -1, HOOP_ERR_RENDEZVOUS, 1), "a rank has ended: all who wait for it are told at once");
    is_string(sentence, s.conns[2].cause.text, "the sentence");
    is_int(HOOP_PHASE_BRINGUP, s.conns[2].cause.phase, "the phase");
    hp_job_ended(s.job, 0, 4, "node1", s.now);
    come(&s, 3, 3, 4);
    is_string(sentence, s.conns[3].cause.text, "who comes later gets the same");
    sim_pass(&s, 4000);
    for (int i = 0; i < 4; i++)
        sim_lose(&s, i);
    come(&s, 4, 3, 4);
    is_string(sentence, s.conns[4].cause.text, "also long after");
    sim_close(&s);
    sim_open(&s);
    hp_job_ended(s.job, 1, 2, "node2", s.now);
    sim_pass(&s, 4000);
    is_int(0, s.lines, "where nobody joins nothing is said");
    ok(!hp_job_idle(s.job) && !hp_job_timed(s.job), "it is kept without a timer");
    come(&s, 0, 0, 2);
    is_string(sentence, s.conns[0].cause.text, "until somebody joins");
    sim_close(&s);
}

/* The end of a rank that nobody waits for, or that has joined. */
static void
test_ended_well(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, 3, 1);
    sim_count(&s, 1, HP_LEAVE, 5);
    sim_lose(&s, 1);
    hp_job_ended(s.job, 1, 3, "node2", s.now);
    sim_pass(&s, 500);
    is_int(0, s.failures, "a rank that ends after it has left harms nobody");
    come(&s, 3, 0, 3);
    is_int(1, s.conns[3].causes, "but a second communicator of all cannot come to be");
    is_int(0, s.conns[0].causes, "the first goes on");
    come(&s, 4, 0, 2);
    come(&s, 5, 1, 2);
    is_int(1, s.conns[5].joined, "a communicator of fewer can");
    sim_close(&s);
    sim_open(&s);
    for (int g = 0; g < 2; g++)
        come(&s, g, -1, 3);
    hp_job_ended(s.job, 1, 3, "node2", s.now);
    is_int(0, s.failures, "where the server gives the ranks it waits on");
    sim_close(&s);
    sim_open(&s);
    come(&s, 1, 1, 3);
    hp_job_ended(s.job, 1, 3, "node2", s.now);
    is_int(1, s.failures, "so does one that ends while it waits itself");
    sim_close(&s);
}

static void
test_duplicate(void)
{
    sim s;
    sim_open(&s);
    hp_join first = sim_join_of(2, 4, 1), second = sim_join_of(2, 4, 1);
    second.member.pid = 4711;
    sim_join(&s, 2, &first);
    is_int(HP_DUPLICATE, sim_enter(&s, 9, &second), "the acceptor refuses a rank that has joined");
    for (int i = 0; i < 4; i++) {
        hp_join join = sim_join_of(i, 4, 1);
        if (i == 1 || i == 3)
            sim_enter(&s, i == 1 ? 8 : 9, &join); /* inside before the true rank has joined */
        if (i != 2)
            sim_join(&s, i, &join);
    }
    is_int(1, s.conns[3].joined, "the ring meets");
    uint8_t bytes[HP_CONTROL_MAX];
    second = sim_join_of(3, 4, 1);
    second.member.pid = 4711;
    sim_say(&s, 9, HP_JOIN, bytes, hp_join_put(bytes, &second));
    is_int(HOOP_ERR_RENDEZVOUS, s.conns[9].cause.code, "another process of a rank of the running job is refused");
    is_string(
        "duplicate rank: the job is running, and its rank 3 is node4, pid 803; start every job under a name of its "
        "own (HOOP_JOB)",
        s.conns[9].cause.text, "the sentence");
    is_int(0, sim_told(&s, 4, -1, HOOP_ERR_RENDEZVOUS, 3), "the first comer is unharmed");
    second = sim_join_of(1, 4, 1);
    second.member.pid_space = 77;
    sim_say(&s, 8, HP_JOIN, bytes, hp_join_put(bytes, &second));
    is_int(HOOP_ERR_RENDEZVOUS, s.conns[8].cause.code, "a process of another container with the same pid is refused");
    first = sim_join_of(1, 4, 1);
    sim_join(&s, 10, &first);
    is_int(0, s.conns[10].causes, "the same process may open a second communicator");
    sim_close(&s);
    sim_open(&s);
    first = sim_join_of(2, 4, 1);
    sim_enter(&s, 0, &first);
    sim_enter(&s, 1, &first);
    sim_say(&s, 0, HP_JOIN, bytes, hp_join_put(bytes, &first));
    sim_say(&s, 1, HP_JOIN, bytes, hp_join_put(bytes, &first));
    is_int(0, s.conns[0].causes, "two ranks of one number are accepted at once: the first to join stays");
    ok(s.conns[1].causes == 1 && strstr(s.conns[1].cause.text, "duplicate rank: rank 2 (node3, pid 802) has already"),
       "the second is told: %s", s.conns[1].cause.text);
    sim_close(&s);
}

static void
test_differences(void)
{
    sim s;
    sim_open(&s);
    hp_join one = sim_join_of(0, 2, 1), other = sim_join_of(1, 2, 1);
    one.agree = "hoop=0.1.0\nslice=1\n", one.agree_n = strlen(one.agree);
    other.agree = "hoop=0.2.0\nslices=2\n", other.agree_n = strlen(other.agree);
    sim_join(&s, 0, &one);
    sim_join(&s, 1, &other);
    ok(strstr(s.conns[0].cause.text, "hoop differ: rank 1 (node2, pid 801) has \"hoop=0.2.0\", the first") != NULL,
       "%s", s.conns[0].cause.text);
    sim_close(&s);
    sim_open(&s);
    for (int i = 0; i < 8; i++) {
        hp_join join = sim_join_of(i, 8, 4);
        join.agree = i == 5 ? "slice=1\nchannels=2\nop_timeout_ms=2000\n" : "slice=1\nchannels=1\nop_timeout_ms=2000\n";
        join.agree_n = strlen(join.agree);
        sim_join(&s, i, &join);
    }
    is_int(8, sim_told(&s, 8, -1, HOOP_ERR_MISMATCH, 5), "all ranks hear whose settings differ, late ones too");
    is_string(
        "settings differ: rank 5 (node2, pid 805) has \"channels=2\", the first to join has \"channels=1\"; give all "
        "ranks the same",
        s.conns[7].cause.text, "the key and both values");
    for (int i = 0; i < 8; i++)
        sim_lose(&s, i);
    sim_world(&s, 8, 4);
    is_int(0, sim_told(&s, 8, -1, HOOP_ERR_MISMATCH, 5), "a second start of the same job is not held up by the first");
    sim_close(&s);
    sim_open(&s);
    hp_join eight = sim_join_of(0, 8, 4), four = sim_join_of(3, 4, 4);
    sim_join(&s, 0, &eight);
    sim_join(&s, 3, &four);
    is_int(2, sim_told(&s, 8, -1, HOOP_ERR_MISMATCH, 3), "another size");
    is_string("sizes differ: rank 3 (node1, pid 803) was started with size 4, but the first to join with size 8; check "
              "HOOP_SIZE, or give every job a name of its own (HOOP_JOB)",
              s.conns[0].cause.text, "the sentence");
    sim_close(&s);
}

static void
test_hello(void)
{
    sim s;
    uint8_t bytes[HP_CONTROL_MAX];
    sim_open(&s);
    hp_hello hello = {.world = 0};
    is_int(HP_BAD_WORLD, hp_admission_judge(NULL, &hello, 0, s.now), "a world of none");
    hello.world = HP_WORLD_MAX + 1;
    is_int(HP_BAD_WORLD, hp_admission_judge(NULL, &hello, 0, s.now), "a world too large");
    hello = (hp_hello){.world = 4, .my_rank = 4};
    is_int(HP_BAD_RANK, hp_admission_judge(NULL, &hello, 0, s.now), "rank 4 of 4");
    hello.my_rank = HP_RANK_UNKNOWN;
    is_int(HP_OK, hp_admission_judge(s.job, &hello, 0, s.now), "no rank yet");
    hp_join said = sim_join_of(1, 4, 1), then = sim_join_of(2, 4, 1);
    sim_enter(&s, 0, &said);
    is_int(-1, sim_say(&s, 0, HP_JOIN, bytes, hp_join_put(bytes, &then)), "JOIN must say what HELLO said");
    ok(s.conns[0].causes == 1 && s.conns[0].cause.code == HOOP_ERR_PROTOCOL, "who says another thing is told: %s",
       s.conns[0].cause.text);
    sim_close(&s);
}

/* Independent of by_place in join_group.c: how many of the same colour come before me. */
static int
reference_rank(const hp_join *joins, int n, int me)
{
    int before = 0;
    for (int i = 0; i < n; i++)
        if (joins[i].color == joins[me].color)
            before += joins[i].key < joins[me].key || (joins[i].key == joins[me].key && i < me);
    return before;
}

/* What rank i of `n` was told of its part. Connection 20 + i is rank i of the parent. */
static int
is_in_part(int number, const sim *s, const hp_join *joins, int n, int i)
{
    const sim_conn *g = &s->conns[20 + i];
    if (joins[i].color < 0)
        return case_ok(g->empty == 1 && g->disconnected == 1 && g->joined == 0,
                       "split %d of %d ranks: rank %d takes no part, but got %d, %d and %d", number, n, i, g->empty,
                       g->disconnected, g->joined);
    int good = case_int(1, g->joined, "split %d of %d ranks: rosters of rank %d", number, n, i) &&
               case_int(reference_rank(joins, n, i), g->rank, "split %d of %d ranks: the new rank of rank %d, color %d",
                        number, n, i, joins[i].color) &&
               case_ok(g->ring.comm != joins[i].parent, "split %d of %d ranks: rank %d got its parent's number", number,
                       n, i) &&
               case_int(i + 1, g->ring.members[g->rank].pid, "split %d of %d ranks: pid of rank %d", number, n, i);
    for (int j = 0; j < n && good; j++)
        if (joins[j].color >= 0)
            good = case_int(joins[i].color == joins[j].color, g->ring.comm == s->conns[20 + j].ring.comm,
                            "split %d of %d ranks: ranks %d and %d of colors %d and %d are in one communicator", number,
                            n, i, j, joins[i].color, joins[j].color);
    return good;
}

static int
one_split(int number)
{
    sim s;
    hp_join joins[SIM_MAX];
    int n = 1 + (int)(tap_random() % 12), good = 1;
    sim_open(&s);
    sim_world(&s, n, 3);
    uint64_t parent = s.conns[0].ring.comm;
    for (int i = 0; i < n; i++) {
        joins[i] = sim_join_of(-1, 0, 3);
        joins[i].parent = parent;
        joins[i].parent_rank = i;
        joins[i].parent_size = n;
        joins[i].color = (int)(tap_random() % 4) - 1;
        joins[i].key = (int)(tap_random() % 5) - 2;
        joins[i].member.pid = (uint32_t)i + 1;
    }
    for (int k = 0, i = (int)(tap_random() % (uint64_t)n); k < n; k++, i = (i + 1) % n)
        good &= case_int(0, sim_join(&s, 20 + i, &joins[i]), "split %d of %d ranks: JOIN of rank %d", number, n, i);
    for (int i = 0; i < n && good; i++)
        good = is_in_part(number, &s, joins, n, i);
    sim_close(&s);
    return good;
}

static void
test_splits(void)
{
    int good = 0;
    for (int i = 0; i < SEEDS; i++)
        good += one_split(i);
    is_int(SEEDS, good, "%d random splits: one ring a colour, ranked by key and old rank, each with its own number",
           SEEDS);
}

static hp_join
split_of(const sim *s, int rank, int n)
{
    hp_join join = sim_join_of(-1, 0, 3);
    join.parent = s->conns[0].ring.comm;
    join.parent_rank = rank;
    join.parent_size = n;
    return join;
}

static void
test_split_losses(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, 4, 3);
    for (int i = 0; i < 3; i++) {
        hp_join join = split_of(&s, i, 4);
        sim_join(&s, 20 + i, &join);
    }
    sim_lose(&s, 21);
    ok(s.conns[20].cause.code == HOOP_ERR_PEER_LOST && s.conns[20].cause.rank == 1 && s.conns[22].causes == 1,
       "who vanishes while a split gathers is named to the others");
    hp_join last = split_of(&s, 3, 4);
    sim_join(&s, 23, &last);
    is_int(HOOP_ERR_PEER_LOST, s.conns[23].cause.code, "and to those who come later");
    sim_close(&s);
    sim_open(&s);
    sim_world(&s, 4, 3);
    for (int i = 0; i < 3; i++) {
        hp_join join = split_of(&s, i, 4);
        sim_join(&s, 20 + i, &join);
    }
    sim_lose(&s, 3);
    sim_pass(&s, 100);
    is_int(HOOP_ERR_PEER_LOST, s.conns[20].cause.code, "the parent's failure ends the split");
    is_int(3, s.conns[20].cause.rank, "with the parent's cause");
    sim_close(&s);
    sim_open(&s);
    sim_world(&s, 4, 3);
    for (int i = 0; i < 3; i++) {
        hp_join join = split_of(&s, i, 4);
        sim_join(&s, 20 + i, &join);
    }
    sim_pass(&s, 5050);
    is_string("rank 3 of 4 did not call hoop_comm_split within 5.0 s; 3 ranks on node1 are waiting",
              s.conns[20].cause.text, "a rank that does not split");
    is_int(0, s.conns[0].causes, "the parent lives on");
    is_string(
        "job 4f21c0de: hoop_comm_split failed: rank 3 of 4 did not call hoop_comm_split within 5.0 s; 3 ranks on node1 "
        "are waiting",
        s.line, "the log does not say that the job has failed");
    sim_close(&s);
}

static int
sim_refuse(sim *s, int g, uint32_t split)
{
    uint8_t bytes[HP_REFUSAL_BYTES];
    hoop_error cause;
    hp_err_set(&cause, HOOP_ERR_ABORTED, "no memory");
    cause.rank = 99; /* who speaks is known */
    return sim_say(s, g, HP_REFUSED, bytes, hp_refusal_put(bytes, split, &cause));
}

/*
 * A rank that cannot come to a split says so, before or after the others came; it is told however late somebody comes.
 */
static void
test_split_refused(void)
{
    sim s;
    int told = 0, next = 0;
    sim_open(&s);
    sim_world(&s, 4, 3);
    for (int split = 1; split <= 2; split++) {
        for (int i = 0; i < 3; i++) {
            hp_join join = split_of(&s, i, 4);
            join.split = (uint32_t)split;
            sim_lose(&s, 20 + i);
            if (i == split)
                sim_refuse(&s, 3, join.split);
            sim_join(&s, 20 + i, &join);
            sim_pass(&s, 60000 * (i == split));
            told += s.conns[20 + i].cause_type == HP_REFUSED;
        }
        told += s.conns[20].cause.rank == 3 && s.conns[20].cause.code == HOOP_ERR_ABORTED;
    }
    is_int(2 * 3, told + (s.conns[20].causes == 1), "who waits, and who comes a minute later, is told who refused");
    ok(!s.job->join_groups && !hp_job_timed(s.job), "then it is forgotten");
    for (int i = 0; i < 4; i++) {
        hp_join join = split_of(&s, i, 4);
        join.split = 3;
        sim_lose(&s, 20 + i);
        sim_join(&s, 20 + i, &join);
    }
    for (int i = 0; i < 4; i++)
        next += s.conns[20 + i].joined;
    is_int(4, next, "and the next split meets");
    is_int(0, sim_refuse(&s, 2, 3), "a refusal that comes too late");
    ok(!s.job->join_groups && s.conns[20].causes == 0, "says nothing to anybody");
    hp_join late = split_of(&s, 1, 4);
    late.split = 2;
    sim_join(&s, 30, &late);
    is_int(HOOP_ERR_RENDEZVOUS, s.conns[30].cause.code, "nor does anybody wait in a split that is over");
    late.split = 1000;
    sim_join(&s, 31, &late);
    is_int(HOOP_ERR_RENDEZVOUS, s.conns[31].cause.code, "nor in one that is far ahead: %s", s.conns[31].cause.text);
    ok(!s.job->join_groups, "and nothing is kept of it");
    is_int(0, sim_refuse(&s, 1, UINT32_MAX), "a refusal of one that is far ahead ends nothing");
    is_int(-1, sim_say(&s, 0, HP_REFUSED, "12345", 5), "a malformed refusal");
    sim_close(&s);
}

/* What is kept for a rank that has yet to come goes with its ring. */
static void
test_split_kept(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, 3, 3);
    for (uint32_t split = 1; split <= 5; split++)
        sim_refuse(&s, 1, split);
    sim_pass(&s, 60000);
    ok(s.job->join_groups && !hp_job_timed(s.job), "five refusals are kept, without a timer");
    sim_lose(&s, 2);
    sim_pass(&s, 100);
    ok(!s.job->join_groups, "until the ring fails");
    sim_close(&s);
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    test_orders();
    test_missing();
    test_come_and_go();
    test_split_reset();
    test_ended();
    test_ended_well();
    test_duplicate();
    test_differences();
    test_hello();
    test_splits();
    test_split_losses();
    test_split_refused();
    test_split_kept();
    return 0;
}
