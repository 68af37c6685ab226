/* SPDX-License-Identifier: MIT */
/*
 * refused_call: a call that one rank refuses ends the others' wait within two seconds, with both what was called and
 * why; one that is made right in time, or that nobody waits for, harms nobody.
 */
#include "rendezvous/refused_call.h"

#include "base/clock.h"
#include "base/err.h"
#include "t/rendezvous/sim.h"
#include "t/tap/tap.h"

#include <string.h>

enum { N = 4, GUILTY = 1 };

static hp_call
call_of(hp_kind kind)
{
    return (hp_call){.kind = (uint8_t)kind, .dtype = HOOP_FLOAT32, .op = HOOP_SUM, .root = -1, .count = 100};
}

/* A rank of the ring says that it could not make its call number `sequence`. */
static int
refuse(sim *s, int g, uint64_t sequence, hp_kind kind)
{
    hp_unstarted said = {.sequence = sequence, .call = call_of(kind)};
    uint8_t bytes[HP_UNSTARTED_BYTES];
    hp_err_set(&said.cause, HOOP_ERR_INVALID_ARGUMENT, "its buffers overlap");
    return sim_say(s, g, HP_UNSTARTED, bytes, hp_unstarted_put(bytes, &said));
}

static void
say_in_op(sim *s, int g, int type, uint64_t sequence, hp_kind kind)
{
    hp_report report = {.sequence = sequence, .awaited = {HP_WAIT_PEER, (g + N - 1) % N}, .call = call_of(kind)};
    sim_in_op(s, g, type, &report);
}

/* All ranks but one are in this operation, for so long. */
static void
others_wait(sim *s, int except, uint64_t sequence, hp_kind kind, int ms)
{
    for (int passed = 0; passed < ms; passed += 50) {
        for (int i = 0; i < N && passed % 250 == 0; i++)
            if (i != except)
                say_in_op(s, i, HP_PROGRESS, sequence, kind);
        sim_pass(s, 50);
    }
}

static int
mismatches(const sim *s)
{
    return sim_told(s, N, -1, HOOP_ERR_MISMATCH, GUILTY);
}

static void
test_waited_for(void)
{
    sim s;
    sim_ring(&s, N, 1, 60 * HP_SEC);
    is_int(0, refuse(&s, GUILTY, 7, HP_ALLGATHER), "a rank says which call it has refused");
    sim_pass(&s, 20000);
    ok(!s.conns[0].causes && !hp_job_timed(s.job), "while nobody waits for it that costs nothing");
    others_wait(&s, GUILTY, 7, HP_ALLGATHER, 900);
    is_int(0, s.conns[0].causes, "others wait in that operation: it has a second to come");
    others_wait(&s, GUILTY, 7, HP_ALLGATHER, 200);
    is_int(N, mismatches(&s), "then all are told, itself too");
    is_string("rank 1 (node2) could not start operation 7 (allgather of 100 x float32): its buffers overlap",
              s.conns[0].cause.text, "what it called, and what was wrong with it");
    ok(s.conns[0].cause.sequence == 7 && s.conns[0].cause.phase == HOOP_PHASE_OPERATION, "with the operation");
    sim_close(&s);
    sim_ring(&s, N, 1, 60 * HP_SEC);
    others_wait(&s, GUILTY, 7, HP_ALLGATHER, 3000);
    refuse(&s, GUILTY, 7, HP_ALLGATHER);
    others_wait(&s, GUILTY, 7, HP_ALLGATHER, 1100);
    is_int(N, mismatches(&s), "the same where the others were there first");
    sim_close(&s);
    sim_ring(&s, N, 1, 60 * HP_SEC);
    refuse(&s, GUILTY, 7, HP_BROADCAST);
    say_in_op(&s, 0, HP_IN_OP, 8, HP_ALLREDUCE);
    sim_pass(&s, 1100);
    is_int(N, mismatches(&s), "and where one could finish that operation alone, and waits in the next");
    sim_close(&s);
}

static void
test_made_right(void)
{
    sim s;
    sim_ring(&s, N, 1, 60 * HP_SEC);
    others_wait(&s, GUILTY, 7, HP_ALLGATHER, 500);
    refuse(&s, GUILTY, 7, HP_ALLGATHER);
    others_wait(&s, GUILTY, 7, HP_ALLGATHER, 900);
    say_in_op(&s, GUILTY, HP_IN_OP, 7, HP_ALLGATHER);
    others_wait(&s, -1, 7, HP_ALLGATHER, 5000);
    is_int(0, s.conns[0].causes, "a right call within a second harms nobody");
    refuse(&s, GUILTY, 8, HP_ALLGATHER);
    say_in_op(&s, GUILTY, HP_IN_OP, 7, HP_ALLGATHER);
    others_wait(&s, GUILTY, 8, HP_ALLGATHER, 5000);
    is_int(0, s.conns[0].causes, "also while one from before is in flight");
    refuse(&s, GUILTY, 8, HP_ALLGATHER);
    say_in_op(&s, GUILTY, HP_PROGRESS, 7, HP_ALLGATHER);
    sim_count(&s, GUILTY, HP_OUT, 7);
    others_wait(&s, GUILTY, 8, HP_ALLGATHER, 500);
    sim_count(&s, GUILTY, HP_OUT, 8);
    others_wait(&s, GUILTY, 8, HP_ALLGATHER, 5000);
    is_int(0, s.conns[0].causes, "one that was over at once says so");
    refuse(&s, GUILTY, 9, HP_ALLGATHER);
    say_in_op(&s, GUILTY, HP_PROGRESS, 8, HP_ALLGATHER);
    sim_count(&s, GUILTY, HP_OUT, 8);
    others_wait(&s, GUILTY, 9, HP_ALLGATHER, 1100);
    is_int(N, mismatches(&s), "reports of operations before it change nothing");
    sim_close(&s);
}

static void
refuse_all(sim *s, uint64_t sequence, hp_kind kind)
{
    for (int i = 0; i < N; i++)
        refuse(s, i, sequence, kind);
}

/* All have refused a call; all but one have made it right. */
static void
test_all_refuse(void)
{
    sim s;
    sim_ring(&s, N, 1, 60 * HP_SEC);
    refuse_all(&s, 7, HP_ALLREDUCE);
    others_wait(&s, GUILTY, 6, HP_ALLREDUCE, 2000);
    is_int(0, s.conns[0].causes, "all ranks have refused a call: nobody waits for anybody");
    for (int i = 0; i < N; i++)
        if (i != GUILTY)
            say_in_op(&s, i, HP_IN_OP, 7, HP_ALLREDUCE);
    others_wait(&s, GUILTY, 7, HP_ALLREDUCE, 900);
    is_int(0, s.conns[0].causes, "all but one make the same call right: that one has a second");
    others_wait(&s, GUILTY, 7, HP_ALLREDUCE, 200);
    is_int(N, mismatches(&s), "then all are told");
    sim_close(&s);
}

/* A program that tries wrong calls on all ranks, or on one, and goes on in its own time. */
static void
test_probes(void)
{
    sim s;
    sim_ring(&s, N, 1, 60 * HP_SEC);
    refuse_all(&s, 7, HP_ALLREDUCE);
    for (int i = 0; i < N; i++)
        if (i != GUILTY)
            say_in_op(&s, i, HP_IN_OP, 7, HP_BROADCAST);
    others_wait(&s, GUILTY, 7, HP_BROADCAST, 10000);
    is_int(0, s.conns[0].causes, "all have refused that call: the others wait in another one");
    sim_close(&s);
    sim_ring(&s, N, 1, 60 * HP_SEC);
    refuse(&s, GUILTY, 7, HP_REDUCE);
    others_wait(&s, GUILTY, 7, HP_ALLREDUCE, 10000);
    is_int(0, s.conns[0].causes, "who waits in another kind of call does not wait for the refused one");
    refuse(&s, GUILTY, 7, HP_ALLREDUCE);
    others_wait(&s, GUILTY, 7, HP_ALLREDUCE, 1100);
    is_int(N, mismatches(&s), "a newer refusal takes the place of an older");
    sim_close(&s);
    sim_ring(&s, N, 1, 60 * HP_SEC);
    refuse(&s, GUILTY, 7, HP_REDUCE);
    others_wait(&s, GUILTY, 6, HP_REDUCE, 10000);
    is_int(0, s.conns[0].causes, "nor does who is in an earlier one");
    sim_count(&s, GUILTY, HP_LEAVE, 6);
    others_wait(&s, GUILTY, 7, HP_REDUCE, 150);
    is_int(N, sim_told(&s, N, -1, HOOP_ERR_PEER_LOST, GUILTY), "who leaves instead has left");
    sim_close(&s);
}

static void
test_nonsense(void)
{
    hp_refused_calls none = {0};
    hp_witness w[2] = {0};
    sim s;
    sim_ring(&s, N, 1, 60 * HP_SEC);
    is_int(-1, sim_say(&s, 0, HP_UNSTARTED, "x", 1), "a refusal that cannot be read is a breach of protocol");
    is_int(-1, refuse(&s, 0, 0, HP_REDUCE), "so is one of operation 0");
    sim_close(&s);
    hp_refused_calls_withdraw(&none, 1, 7);
    is_int(-1, hp_refused_calls_due(&none, w, 2, HP_SEC), "where nobody has refused anything, nothing is due");
    hp_refused_calls_free(&none, 2);
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    test_waited_for();
    test_made_right();
    test_all_refuse();
    test_probes();
    test_nonsense();
    return 0;
}
