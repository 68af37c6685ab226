/* SPDX-License-Identifier: MIT */
/*
 * A rank in a split while another is in a collective that the first has not started: both end within a second, with
 * both calls. Operations that all have started before the split harm nobody, nor does a rank that starts more
 * meanwhile. And rings whose ranks wait for each other, or for one that is in no operation.
 */
#include "base/clock.h"
#include "t/rendezvous/sim.h"
#include "t/tap/tap.h"

#include <string.h>

enum { N = 4, SPLIT = 20 };

static void
split(sim *s, int rank, uint64_t started)
{
    hp_join join = sim_join_of(-1, 0, 2);
    join.parent = s->conns[0].ring.comm;
    join.split = 1;
    join.parent_rank = rank;
    join.parent_size = N;
    join.started = started;
    join.patience = 60000;
    sim_join(s, SPLIT + rank, &join);
}

static void
in_op_of(sim *s, int conn, uint64_t sequence)
{
    int rank = conn % SPLIT;
    hp_report report = {.sequence = sequence,
                        .awaited = {HP_WAIT_PEER, (rank + N - 1) % N},
                        .call = {.kind = HP_ALLREDUCE, .dtype = HOOP_FLOAT64, .op = HOOP_MAX, .root = -1, .count = 12}};
    sim_in_op(s, conn, HP_IN_OP, &report);
}

static void
in_op(sim *s, int rank, uint64_t sequence)
{
    in_op_of(s, rank, sequence);
}

static void
test_crossed(void)
{
    sim s;
    sim_ring(&s, N, 2, 60 * HP_SEC);
    split(&s, 1, 7);
    sim_pass(&s, 20000);
    in_op(&s, 3, 8);
    sim_pass(&s, 400);
    is_int(0, s.conns[0].causes, "a rank is in a split, another comes to an operation");
    sim_pass(&s, 200);
    is_int(N, sim_told(&s, N, -1, HOOP_ERR_MISMATCH, 1), "all members are told");
    is_string(
        "rank 1 (node1) is in hoop_comm_split after 7 operations, but rank 3 (node2) is in operation 8 (allreduce "
        "of 12 x float64, max), which rank 1 has not started",
        s.conns[0].cause.text, "with both calls");
    is_string(s.conns[0].cause.text, s.conns[SPLIT + 1].cause.text, "the split ends with the same");
    ok(s.conns[0].cause.sequence == 8 && s.conns[0].cause.reporter == 3, "the operation, and who is in it");
    sim_close(&s);
    sim_ring(&s, N, 2, 60 * HP_SEC);
    in_op(&s, 0, 1);
    in_op(&s, 3, 1);
    sim_pass(&s, 5000);
    split(&s, 2, 0);
    sim_pass(&s, 600);
    is_int(N, sim_told(&s, N, -1, HOOP_ERR_MISMATCH, 2), "the same where the others were there first");
    sim_close(&s);
}

static void
test_harmless(void)
{
    sim s;
    sim_ring(&s, N, 2, 60 * HP_SEC);
    for (int i = 0; i < N; i++)
        in_op(&s, i, 8);
    for (int i = 0; i < N - 1; i++)
        split(&s, i, 9);
    sim_pass(&s, 20000);
    in_op(&s, N - 1, 9);
    sim_pass(&s, 20000);
    is_int(0, s.conns[0].causes, "operations that all have started before it may take as long as they like");
    split(&s, N - 1, 9);
    is_int(1, s.conns[SPLIT].joined, "the last one comes, and the split is made");
    sim_close(&s);
    sim_ring(&s, N, 2, 60 * HP_SEC);
    split(&s, 1, 7);
    in_op(&s, 3, 8);
    split(&s, 3, 8);
    sim_pass(&s, 20000);
    is_int(0, s.conns[0].causes, "who has come to the split as well waits for nothing else");
    in_op(&s, 0, 8);
    sim_pass(&s, 400);
    in_op(&s, 1, 8);
    sim_pass(&s, 20000);
    is_int(0, s.conns[0].causes, "another thread of the one in the split has started that operation");
    sim_count(&s, 1, HP_OUT, 8);
    sim_pass(&s, 20000);
    is_int(0, s.conns[0].causes, "and finished it");
    in_op(&s, 0, 9);
    sim_pass(&s, 400);
    sim_count(&s, 0, HP_OUT, 9);
    sim_pass(&s, 20000);
    is_int(0, s.conns[0].causes, "an operation that ends was none that waits");
    sim_close(&s);
}

/* A ring and a split of all its ranks; rank 2 calls the split first, the others the ring, and all that wait report. */
static void
cross_rings(sim *s, uint64_t limit, int ms)
{
    sim_ring(s, N, 2, 60 * HP_SEC);
    sim_split(s, SPLIT, 0, limit);
    for (int at = 0; at < ms; at += 250) {
        for (int i = 0; i < N; i++)
            in_op_of(s, i == 2 ? SPLIT + i : i, i == 2 ? 1 : 7);
        sim_pass(s, 250);
    }
}

static void
test_rings(void)
{
    sim s;
    char text[300];
    cross_rings(&s, 60 * HP_SEC, 3000);
    const hp_roster *r = s.job->rosters;
    sim_late(&s, r, HP_SEC, text, sizeof(text));
    is_string(
        "rank 2 (node2, pid 802) waits in operation 1 (allreduce of 12 x float64, max) of split 1 colour 0, and rank "
        "1 (node1, pid 801) in operation 7 (allreduce of 12 x float64, max) of the whole job: call them in the "
        "same order; waited 1.0 s",
        text, "two communicators called in different orders: one sentence has both");
    sim_late(&s, r->next, HP_SEC, s.line, sizeof(s.line));
    is_string(text, s.line, "it is the same for both rings");
    is_int(0, s.conns[0].causes, "but no error before the time-out");
    sim_close(&s);
    cross_rings(&s, 60 * HP_SEC, 60500);
    is_int(N, sim_told(&s, N, -1, HOOP_ERR_TIMEOUT, 2), "then all ranks of the one hear it");
    is_string(s.conns[0].cause.text, s.conns[SPLIT + 2].cause.text, "and those of the other the same");
    sim_close(&s);
    cross_rings(&s, 10 * HP_SEC, 10500);
    ok(s.conns[SPLIT].causes == 1 && s.conns[0].causes == 0, "a ring that has time left is not ended with the other");
    sim_close(&s);
}

/* Rank `rank` is in this operation of its ring and waits there for `other`. */
static void
wait_for(sim *s, int conn, uint64_t sequence, int other)
{
    hp_report report = {
        .sequence = sequence, .awaited = {HP_WAIT_PEER, other}, .call = {.kind = HP_BARRIER, .root = -1}};
    sim_in_op(s, conn, HP_IN_OP, &report);
}

/* Ranks 2 and 3 have a split of their own, and rank 2 waits there for rank 3; `early` ms later 0 and 1 wait for rank 2. */
static void
chain_rings(sim *s, uint64_t limit, int early, int ms)
{
    sim_ring(s, N, 2, 60 * HP_SEC);
    sim_split(s, SPLIT, 2, limit);
    for (int at = 0; at < ms; at += 250) {
        wait_for(s, SPLIT + 2, 1, 1);
        if (at >= early)
            wait_for(s, 0, 7, 1);
        if (at >= early)
            wait_for(s, 1, 7, 2);
        sim_pass(s, 250);
    }
}

static void
test_chain(void)
{
    static const char chain[] = "rank 2 (node2, pid 802) waits in operation 1 (barrier) of split 1 colour 0 for rank 3 "
                                "(node2, pid 803), which has not entered it, or was stopped; 2 ranks have waited ";
    sim s;
    char text[300];
    chain_rings(&s, 60 * HP_SEC, 0, 3000);
    sim_late(&s, s.job->rosters->next, HP_SEC, text, sizeof(text));
    ok(strncmp(text, chain, strlen(chain)) == 0, "a rank waits in another ring: the sentence follows it: %s", text);
    sim_close(&s);
    chain_rings(&s, 60 * HP_SEC, 250, 60500);
    is_int(N, sim_told(&s, N, -1, HOOP_ERR_TIMEOUT, 3), "after the time-out all ranks hear who is to blame");
    is_int(1, s.conns[SPLIT + 2].causes, "as those of the other ring do");
    ok(strncmp(s.conns[0].cause.text, chain, strlen(chain)) == 0,
       "the ring that was first takes the others with it: %s", s.conns[0].cause.text);
    is_uint(7, s.conns[0].cause.sequence, "with the operation of their own ring");
    ok(strstr(s.conns[SPLIT + 2].cause.text, "rank 1 (node2, pid 803) has not entered operation 1 (barrier)") != NULL,
       "there it is named by its number in that ring: %s", s.conns[SPLIT + 2].cause.text);
    sim_close(&s);
    chain_rings(&s, 10 * HP_SEC, 0, 9500);
    sim_say(&s, SPLIT + 2, HP_NAME, "tp", 2);
    sim_pass(&s, 1000);
    ok(s.conns[SPLIT + 2].causes == 1 && s.conns[0].causes == 0, "one that has time left stays");
    is_string("split 1 colour 0 \"tp\"", s.failed_split, "the owner hears which ring has failed, with its name");
    is_uint(803, s.failed_pid, "and the process that is to blame");
    sim_close(&s);
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    test_crossed();
    test_harmless();
    test_rings();
    test_chain();
    return 0;
}
