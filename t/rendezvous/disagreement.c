/* SPDX-License-Identifier: MIT */
/*
 * disagreement: ranks that call different things all get one sentence, with both calls and their names, and the smaller group
 * first. It does not depend on who sees the difference first, on who has told its call, or on what else happens meanwhile.
 */
#include "rendezvous/disagreement.h"

#include "base/call.h"
#include "base/clock.h"
#include "base/err.h"
#include "t/rendezvous/sim.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 8, GRADIENTS = 1 };

static const hp_call sum = {.kind = HP_ALLREDUCE, .dtype = HOOP_FLOAT32, .op = HOOP_SUM, .root = -1, .count = 100};
static const hp_call other = {.kind = HP_BROADCAST, .dtype = HOOP_FLOAT32, .root = 0, .count = 100};
static const hp_call counts = {.kind = HP_ALLGATHERV, .dtype = HOOP_INT8, .root = 5, .count = 12};
static const hp_call counts_too = {.kind = HP_ALLGATHERV, .dtype = HOOP_INT8, .root = 6, .count = 12};

static void
tell(sim *s, int rank, uint64_t sequence, const hp_call *call, int name)
{
    hp_report report = {.sequence = sequence, .awaited = {HP_WAIT_PEER, -1}, .call_name = name, .call = *call};
    sim_in_op(s, rank, HP_IN_OP, &report);
}

static void
give_name(sim *s, int rank, const char *name)
{
    uint8_t bytes[HP_CALL_NAME_BYTES];
    sim_say(s, rank, HP_CALL_NAME, bytes, hp_call_name_put(bytes, GRADIENTS, name));
}

static int
differs(sim *s, int reporter, int peer, uint64_t sequence)
{
    uint8_t bytes[HP_ABORT_BYTES];
    hoop_error error;
    hp_err_set(&error, HOOP_ERR_MISMATCH, "what rank %d saw of rank %d", reporter, peer);
    error.rank = peer;
    error.reporter = reporter;
    error.sequence = sequence;
    return sim_say(s, reporter, HP_ABORT, bytes, hp_abort_put(bytes, &error));
}

/* All n ranks have heard this once, the reporters too. */
static int
all_heard(const sim *s, int n, int rank, const char *text)
{
    int heard = 0;
    for (int i = 0; i < n; i++)
        heard += s->conns[i].causes == 1 && s->conns[i].cause.code == HOOP_ERR_MISMATCH &&
                 s->conns[i].cause.rank == rank && strcmp(s->conns[i].cause.text, text) == 0;
    if (heard < n)
        diag("rank 0 has heard %d causes, rank %d: %s", s->conns[0].causes, s->conns[0].cause.rank,
             s->conns[0].cause.text);
    return heard == n;
}

static int
none_heard(const sim *s, int n)
{
    int heard = 0;
    for (int i = 0; i < n; i++)
        heard += s->conns[i].causes;
    return heard == 0;
}

/* Whoever tells first, and whoever reports: one rank of n calls something else. */
static void
test_one_of_many(void)
{
    static const char *const rest[] = {"", "", "", " and 1 other", "", "", "", "", " and 6 others"};
    int good = 0, cases = 0;
    for (int n = 3; n <= MOST; n += 5)
        for (int odd = 0; odd < n; odd++)
            for (int both = 0; both < 3; both++) {
                sim s;
                char text[256];
                int first = odd == 0;
                sim_ring(&s, n, 2, 60 * HP_SEC);
                for (int i = 0; i < n; i++)
                    if (i != odd)
                        tell(&s, i, 7, &sum, 0);
                if (both != 1)
                    differs(&s, (odd + 1) % n, odd, 7);
                if (both != 2)
                    differs(&s, odd, (odd + n - 1) % n, 7);
                int early = none_heard(&s, n);
                tell(&s, odd, 7, &other, 0);
                snprintf(text, sizeof(text),
                         "rank %d (node%d) called broadcast of 100 x float32 from root 0 as operation 7, but rank %d "
                         "(node1)%s called allreduce of 100 x float32, sum",
                         odd, odd / 2 + 1, first, rest[n]);
                good += early && all_heard(&s, n, odd, text);
                cases++;
                sim_close(&s);
            }
    is_int(cases, good, "whoever reports it, all hear who differs, as soon as the last rank has told its call");
}

static void
test_two(void)
{
    sim s;
    sim_ring(&s, 2, 2, 60 * HP_SEC);
    give_name(&s, 0, "loss");
    give_name(&s, 1, "gradients");
    tell(&s, 0, 3, &sum, GRADIENTS);
    tell(&s, 1, 3, &other, GRADIENTS);
    is_int(0, differs(&s, 0, 1, 3), "one of two");
    ok(all_heard(&s, 2, 1,
                 "rank 1 (node1) called broadcast (gradients) of 100 x float32 from root 0 as operation 3, but rank 0 "
                 "(node1) called allreduce (loss) of 100 x float32, sum"),
       "both calls have their names");
    sim_close(&s);
    sim_ring(&s, 2, 2, 60 * HP_SEC);
    tell(&s, 0, 3, &counts, 0);
    tell(&s, 1, 3, &counts_too, 0);
    differs(&s, 1, 0, 3);
    ok(all_heard(
           &s, 2, 0,
           "rank 0 (node1) called allgatherv of 12 x int8 as operation 3, but rank 1 (node1) called allgatherv of "
           "12 x int8, with other recvcounts"),
       "calls that differ in the counts only");
    sim_close(&s);
}

/* 2 and 2, or three different calls. */
static void
test_groups(void)
{
    sim s;
    sim_ring(&s, 4, 2, 60 * HP_SEC);
    for (int i = 0; i < 4; i++)
        tell(&s, i, 7, i % 2 ? &sum : &other, 0);
    differs(&s, 3, 2, 7);
    ok(all_heard(&s, 4, 0,
                 "rank 0 (node1) and 1 other called broadcast of 100 x float32 from root 0 as operation 7, but rank 1 "
                 "(node1) and 1 other called allreduce of 100 x float32, sum"),
       "two groups of one size");
    sim_close(&s);
    sim_ring(&s, 4, 2, 60 * HP_SEC);
    for (int i = 0; i < 4; i++)
        tell(&s, i, 7, i < 2 ? &sum : i == 2 ? &other : &counts, 0);
    differs(&s, 2, 1, 7);
    ok(all_heard(
           &s, 4, 2,
           "rank 2 (node2) called broadcast of 100 x float32 from root 0 as operation 7, but rank 0 (node1) and 1 "
           "other called allreduce of 100 x float32, sum"),
       "of three calls, those of most ranks");
    sim_close(&s);
    sim_ring(&s, 6, 2, 60 * HP_SEC);
    for (int i = 0; i < 6; i++)
        tell(&s, i, 7, i == 2 ? &other : i == 3 ? &counts : &sum, 0);
    differs(&s, 3, 2, 7);
    ok(all_heard(
           &s, 6, 2,
           "rank 2 (node2) called broadcast of 100 x float32 from root 0 as operation 7, but rank 0 (node1) and 3 "
           "others called allreduce of 100 x float32, sum"),
       "of two wrong calls and the right one, the right one is told");
    sim_close(&s);
}

/* The two calls differ at their very end, and all else is as long as it may be. */
static void
test_long(void)
{
    static const char name[] = "gradients of the first stage...";
    hp_witness w[3] = {0};
    hp_member members[3] = {0};
    hp_disagreement d = {0};
    hoop_error cause, error;
    for (int i = 0; i < 3; i++) {
        w[i] = (hp_witness){.in_op = 1, .report = {.sequence = UINT64_C(1) << 62}};
        w[i].report.call =
            (hp_call){HP_ALLREDUCE, HOOP_BFLOAT16, HOOP_SUM, 1, i == 1 ? 0x1234567 : 0x7654321, UINT64_MAX, name, 1, 0};
        members[i].rank = i;
        memset(members[i].host, 'h', HP_HOST_TEXT - 1);
    }
    hp_err_set(&cause, HOOP_ERR_MISMATCH, "x");
    cause.rank = 1;
    cause.reporter = 2;
    cause.sequence = UINT64_C(1) << 62;
    ok(hp_disagreement_note(&d, &cause, 1), "noted");
    hp_disagreement_error(&d, w, members, 3, &error);
    ok(strstr(error.text, "01234567") && strstr(error.text, "07654321"), "a long sentence has what differs: %s",
       error.text);
}

/* What the ranks have not told is not made up: the rank's own sentence goes to all. */
static void
test_untold(void)
{
    static const struct {
        const char *name;
        uint64_t peer, reporter; /* the operations that they tell; 0: none */
        const hp_call *call;     /* the peer's */
    } row[] = {{"nothing is told", 0, 0, NULL},
               {"only the reporter tells", 0, 7, NULL},
               {"the other rank is in an earlier operation", 6, 7, &other},
               {"the reporter is in an earlier operation", 7, 6, &other},
               {"both tell the same call", 7, 7, &sum}};
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        sim s;
        sim_ring(&s, 4, 2, 60 * HP_SEC);
        if (row[i].reporter)
            tell(&s, 2, row[i].reporter, &sum, 0);
        if (row[i].peer)
            tell(&s, 1, row[i].peer, row[i].call, 0);
        differs(&s, 2, 1, 7);
        int early = none_heard(&s, 4);
        ok(hp_job_timed(s.job), "%s: time has to pass", row[i].name);
        sim_pass(&s, 150);
        early &= none_heard(&s, 4);
        sim_pass(&s, 100);
        ok(early && all_heard(&s, 4, 1, "what rank 2 saw of rank 1"), "%s: after a moment all hear the report",
           row[i].name);
        sim_close(&s);
    }
}

/* What happens while the verdict is put off is its consequence. */
static void
test_first_cause(void)
{
    static const char *const what[] = {"the rank leaves",     "its connection ends", "its connection is reset",
                                       "another rank aborts", "a link is lost",      "another pair differs"};
    for (int i = 0; i < 6; i++) {
        sim s;
        sim_ring(&s, 4, 2, 60 * HP_SEC);
        tell(&s, 1, 7, &other, 0);
        tell(&s, 2, 7, &sum, 0);
        differs(&s, 2, 1, 7);
        if (i == 0)
            sim_count(&s, 1, HP_LEAVE, 6);
        else if (i == 1)
            sim_lose(&s, 1);
        else if (i == 2)
            sim_break(&s, 1);
        else if (i == 3)
            sim_abort(&s, 3, HOOP_ERR_CUDA, 3, "no GPU");
        else if (i == 4)
            sim_lost(&s, 3, 1, 0, 7);
        else
            differs(&s, 3, 2, 7);
        sim_pass(&s, 300);
        ok(s.conns[0].causes == 1 && s.conns[0].cause.code == HOOP_ERR_MISMATCH && s.conns[2].causes == 1 &&
               strcmp(s.conns[0].cause.text, s.conns[2].cause.text) == 0,
           "%s: the difference stays the cause", what[i]);
        sim_close(&s);
    }
}

/* A mismatch of messages, or one that the rank saw at itself, is not one of calls. */
static void
test_other_mismatches(void)
{
    hp_disagreement d = {0};
    hoop_error error;
    hp_err_set(&error, HOOP_ERR_MISMATCH, "rank 1 sent 5 x int8");
    error.rank = 1;
    error.reporter = 2;
    error.sequence = HP_NO_OPERATION;
    ok(!hp_disagreement_note(&d, &error, 1) && !hp_disagreement_is_open(&d), "messages are not its concern");
    error.sequence = 7;
    error.rank = 2;
    ok(!hp_disagreement_note(&d, &error, 1) && !hp_disagreement_is_due(&d, NULL, 0, HP_SEC),
       "nor is a rank's own mistake");
    error.code = HOOP_ERR_PEER_LOST;
    error.rank = 1;
    ok(!hp_disagreement_note(&d, &error, 1), "nor is a lost rank");
}

/* The server ends before all ranks have told their calls. */
static void
test_closed(void)
{
    sim s;
    hoop_error cause;
    hp_err_set(&cause, HOOP_ERR_RENDEZVOUS, "the server ends");
    sim_open(&s);
    sim_world(&s, 4, 4);
    differs(&s, 2, 1, 7);
    ok(none_heard(&s, 4), "the ranks have a moment to tell their calls");
    hp_job_close(s.job, &cause, s.now);
    ok(all_heard(&s, 4, 1, "what rank 2 saw of rank 1"),
       "if the server ends, all hear what the first rank has reported");
    sim_close(&s);
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    test_one_of_many();
    test_two();
    test_groups();
    test_long();
    test_untold();
    test_first_cause();
    test_other_mismatches();
    test_closed();
    return 0;
}
