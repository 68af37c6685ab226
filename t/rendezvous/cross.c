/* SPDX-License-Identifier: MIT */
/*
 * A rank in a split while another is in a collective that the first has not started: both end within a second, with
 * both calls. Operations that all have started before the split harm nobody, nor does a rank that starts more
 * meanwhile.
 */
#include "base/clock.h"
#include "t/rendezvous/sim.h"
#include "t/tap/tap.h"

enum { N = 4, SPLIT = 20 };

static void
open_ring(sim *s)
{
    sim_open(s);
    for (int i = 0; i < N; i++) {
        hp_join join = sim_join_of(i, N, 2);
        join.op_timeout = 60 * HP_SEC;
        join.patience = 60000;
        sim_join(s, i, &join);
    }
    for (int i = 0; i < N; i++)
        sim_say(s, i, HP_READY, NULL, 0);
}

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
in_op(sim *s, int rank, uint64_t sequence)
{
    hp_report report = {.sequence = sequence,
                        .waits_for = (rank + N - 1) % N,
                        .call = {.kind = HP_ALLREDUCE, .dtype = HOOP_FLOAT64, .op = HOOP_MAX, .root = -1, .count = 12}};
    uint8_t bytes[HP_REPORT_BYTES];
    hp_report_put(bytes, &report);
    sim_say(s, rank, HP_IN_OP, bytes, sizeof(bytes));
}

static void
test_crossed(void)
{
    sim s;
    open_ring(&s);
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
    open_ring(&s);
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
    open_ring(&s);
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
    open_ring(&s);
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

int
main(void)
{
    plan_lazy();
    tap_limit(60);
    test_crossed();
    test_harmless();
    return 0;
}
