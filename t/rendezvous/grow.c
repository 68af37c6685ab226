/* SPDX-License-Identifier: MIT */
/*
 * The group of a grow: who is taken in, who goes on waiting, and who is refused. Without sockets and without a clock. At
 * the end seeded lives: rings that grow again and again, and newcomers that come, die, are reset and are interrupted.
 */
#include "t/rendezvous/sim.h"

#include "base/clock.h"
#include "base/err.h"
#include "rendezvous/grow.h"
#include "rendezvous/table.h"
#include "t/rendezvous/lines.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 3 };

static sim s;

/* Rank `rank` of the ring of conn `member` comes as conn g, in its split number `split`. */
static int
grow(int g, int member, uint32_t split)
{
    hp_join join = sim_derived_of(&s, member);
    join.split = split;
    join.grow = 1;
    return sim_join(&s, g, &join);
}

/* A newcomer, process 900 + g, as conn g. */
static int
come(int g, const char *settings)
{
    hp_join join = sim_join_of(0, 1, 1);
    join.member.rank = -1;
    join.member.pid = 900 + (uint32_t)g;
    join.grow = 1;
    join.agree = settings;
    join.agree_n = strlen(settings);
    return sim_join(&s, g, &join);
}

static void
print_table(void)
{
    const hp_table_options options = {.most = 100, .to.line = keep};
    forget();
    hp_table_print(s.job, &options, s.now);
}

static void
open_world(void)
{
    sim_open(&s);
    sim_world(&s, N, 1);
}

/* Conn g waits: it has been told nothing. */
static int
waits(int g)
{
    return s.conns[g].present && !s.conns[g].joined && !s.conns[g].causes && !s.conns[g].disconnected;
}

static void
taken(void)
{
    open_world();
    come(50, "slice=1\n");
    is_string("job 4f21c0de: a process on node1 (pid 950) waits for hoop_comm_grow", s.line,
              "a newcomer waits, says the log");
    sim_pass(&s, 3600 * 1000);
    ok(waits(50) && !s.warnings, "... for as long as it takes");
    print_table();
    is_string("job 4f21c0de: a process waits for hoop_comm_grow, on node1, pid 950", lines[count - 1],
              "the table has it");
    grow(10, 0, 1);
    grow(12, 2, 1);
    ok(waits(50), "... until all ranks have called it");
    come(51, "slice=1\n");
    print_table();
    is_string("job 4f21c0de: 2 processes wait for hoop_comm_grow, the first on node1, pid 950", lines[count - 1],
              "... and how many there are");
    grow(11, 1, 1);
    ok(sim_has_ring(&s, 10, 0, 5, 1) && sim_has_ring(&s, 11, 1, 5, 1) && sim_has_ring(&s, 12, 2, 5, 1),
       "the ranks keep their numbers");
    ok(sim_has_ring(&s, 50, 3, 5, 1) && sim_has_ring(&s, 51, 4, 5, 1),
       "the newcomers follow in the order in which they came");
    for (int g = 10; g < 13; g++)
        sim_say(&s, g, HP_READY, NULL, 0);
    ok(!s.conns[10].go, "the ring is linked with all of them");
    sim_say(&s, 50, HP_READY, NULL, 0);
    sim_say(&s, 51, HP_READY, NULL, 0);
    ok(s.conns[10].go && s.conns[51].go, "... as any other");
    is_string("job 4f21c0de epoch 1: 5 ranks on 3 hosts joined, ring up after 0.00 s", s.line, "the log says so");
    ok(!s.conns[0].causes && s.conns[0].present, "the old ring is as it was");
    sim_lose(&s, 51);
    sim_pass(&s, 200);
    ok(s.conns[10].cause.rank == 4 && !s.conns[0].causes, "the new one fails as any other, and the old one does not");
    sim_close(&s);
}

static void
nobody(void)
{
    open_world();
    for (int i = 0; i < N; i++)
        grow(10 + i, i, 1);
    ok(s.conns[10].empty && s.conns[12].empty && s.conns[10].disconnected, "nobody waits: there is no new ring");
    grow(15, 0, 1);
    ok(s.conns[15].empty && !s.conns[15].causes, "... also for a rank that was away, and asks again");
    come(50, "slice=1\n");
    for (int i = 0; i < N; i++)
        grow(20 + i, i, 2);
    ok(sim_has_ring(&s, 20, 0, 4, 1) && sim_has_ring(&s, 50, 3, 4, 1), "... until somebody does");
    sim_close(&s);
}

static void
lost(void)
{
    open_world();
    for (int g = 50; g < 54; g++)
        come(g, "slice=1\n");
    sim_lose(&s, 50);
    sim_break(&s, 51);
    sim_abort(&s, 52, HOOP_ERR_ABORTED, -1, "interrupted");
    come(54, "slice=1\n");
    come(55, "slice=1\n");
    for (int i = 0; i < N; i++)
        grow(10 + i, i, 1);
    ok(sim_has_ring(&s, 10, 0, 6, 1) && sim_has_ring(&s, 53, 3, 6, 1) && sim_has_ring(&s, 55, 5, 6, 1),
       "those that have gone are not taken in, and the others keep their order");
    ok(!s.failures, "... and fail nobody");
    sim_close(&s);
}

static void
unlike(void)
{
    open_world();
    come(50, "slice=2\n");
    come(51, "slice=1\n");
    come(52, "slice=2\n");
    ok(waits(50) && waits(51) && waits(52), "what settings the ring has is not known before it grows");
    sim_lose(&s, 50);
    come(53, "slice=1\n");
    for (int i = 0; i < N; i++)
        grow(10 + i, i, 1);
    ok(s.conns[52].cause.code == HOOP_ERR_MISMATCH && strstr(s.conns[52].cause.text, "pid 952) has \"slice=2\""),
       "then those that differ are refused: %s", s.conns[52].cause.text);
    ok(sim_has_ring(&s, 10, 0, 5, 1) && sim_has_ring(&s, 51, 3, 5, 1) && sim_has_ring(&s, 53, 4, 5, 1),
       "... and only those");
    ok(s.failures == 0 && strstr(s.line, "newcomers are refused: "), "no ring has failed: %s", s.line);
    sim_close(&s);
}

/* A process is one rank; a connection that is made again is no second one. */
static void
same_process(void)
{
    hp_join join = sim_join_of(0, 1, 1);
    open_world();
    join.member.rank = -1;
    join.grow = 1;
    join.epoch = 7;
    sim_join(&s, 50, &join);
    sim_join(&s, 51, &join);
    ok(s.conns[50].disconnected && waits(51), "a newcomer that dials again has its place");
    join.epoch = 8;
    sim_join(&s, 52, &join);
    ok(s.conns[52].cause.code == HOOP_ERR_RENDEZVOUS && waits(51), "a second thread of it is refused: %s",
       s.conns[52].cause.text);
    sim_close(&s);
}

/* Newcomers of which nobody is left to take them in. */
static void
stranded(void)
{
    open_world();
    come(50, "slice=1\n");
    come(51, "slice=2\n");
    is_int(0, hp_grow_stranded(s.job), "while there is a ring, nobody waits in vain");
    for (int g = 0; g < N; g++)
        sim_lose(&s, g);
    sim_pass(&s, 60 * 1000);
    is_int(2, hp_grow_stranded(s.job), "all ranks of the ring are lost: both do");
    sim_lose(&s, 51);
    is_int(1, hp_grow_stranded(s.job), "... as long as they wait");
    sim_close(&s);
}

static void
failing(void)
{
    open_world();
    come(50, "slice=1\n");
    grow(10, 0, 1);
    sim_lose(&s, 2);
    sim_pass(&s, 200);
    ok(s.conns[10].causes && s.conns[0].cause.code == HOOP_ERR_PEER_LOST,
       "the ring fails while it grows: the call does");
    ok(waits(50), "... and the newcomer waits for the next one");
    sim_close(&s);
    open_world();
    grow(10, 0, 1);
    hp_join split = sim_derived_of(&s, 1);
    split.split = 1;
    sim_join(&s, 11, &split);
    ok(s.conns[10].cause.code == HOOP_ERR_MISMATCH && s.conns[11].cause.code == HOOP_ERR_MISMATCH,
       "one grows, and one splits");
    is_string(
        "rank 1 (node2) has called hoop_comm_split, and another rank hoop_comm_grow; all ranks must call the same",
        s.conns[10].cause.text, "... is named");
    sim_close(&s);
    open_world();
    come(50, "slice=1\n");
    grow(10, 0, 1);
    sim_pass(&s, 2000);
    is_string("job 4f21c0de: ranks 1-2 have not called hoop_comm_grow 1 of the whole job; 1 rank has waited 2.0 s",
              s.warning, "a line names those that are late");
    sim_pass(&s, 4000);
    ok(strstr(s.conns[10].cause.text, "did not call hoop_comm_grow within 5.0 s") && waits(50),
       "... and so does the error: %s", s.conns[10].cause.text);
    hoop_error cause;
    hp_err_set(&cause, HOOP_ERR_RENDEZVOUS, "the server was stopped");
    hp_job_close(s.job, &cause, s.now);
    ok(s.conns[50].cause.code == HOOP_ERR_RENDEZVOUS, "a server that ends tells those that wait");
    sim_close(&s);
}

/* --- seeded lives --- */

/*
 * The members of a ring, by rank those of the conns `member`, call it in a random order as conns from `to` on, and newcomers
 * come and go meanwhile. Afterwards `member` is the next ring. Returns how many newcomers it has; -1: something was wrong.
 */
static int
one_grow(int *member, int size, int to, uint32_t split)
{
    int waiting[8], n = 0, order[SIM_MAX];
    for (int i = 0; i < size; i++)
        order[i] = i;
    for (int i = size - 1; i > 0; i--) {
        int j = (int)(tap_random() % (uint64_t)(i + 1)), keep = order[i];
        order[i] = order[j];
        order[j] = keep;
    }
    for (int i = 0, fresh = to + size; i < size; i++) {
        for (int k = (int)(tap_random() % 3); k > 0 && n < 6; k--) {
            come(fresh, "slice=1\n");
            waiting[n++] = fresh++;
        }
        if (n && tap_random() % 3 == 0) {
            int gone = (int)(tap_random() % (uint64_t)n), how = (int)(tap_random() % 3);
            if (how == 0)
                sim_lose(&s, waiting[gone]);
            else if (how == 1)
                sim_break(&s, waiting[gone]);
            else
                sim_abort(&s, waiting[gone], HOOP_ERR_ABORTED, -1, "interrupted");
            for (n--; gone < n; gone++)
                waiting[gone] = waiting[gone + 1];
        }
        grow(to + order[i], member[order[i]], split);
    }
    int good = 1, seen = 0;
    for (int i = 0; i < size; i++)
        good &= n ? sim_has_ring(&s, to + i, i, size + n, s.conns[to].ring.epoch) : s.conns[to + i].empty;
    for (int i = 0; i < n; i++) {
        int rank = s.conns[waiting[i]].rank;
        good &= sim_has_ring(&s, waiting[i], rank, size + n, s.conns[to].ring.epoch) && rank >= size;
        seen |= 1 << (rank - size);
        member[rank] = waiting[i];
        sim_say(&s, waiting[i], HP_READY, NULL, 0);
    }
    for (int i = 0; n && i < size; i++)
        sim_say(&s, to + i, HP_READY, NULL, 0);
    for (int i = 0; n && i < size; i++) {
        good &= s.conns[to + i].go;
        member[i] = to + i;
    }
    return good && seen == (1 << n) - 1 && !s.failures ? n : -1;
}

static int
life(void)
{
    enum { CALLS = 6, APART = 64 };
    int member[APART], size = 1 + (int)(tap_random() % 4), good = 1;
    uint32_t split = 1;
    sim_open(&s);
    sim_world(&s, size, 1);
    for (int i = 0; i < size; i++)
        member[i] = i;
    for (int call = 1; good && call <= CALLS; call++) {
        int n = one_grow(member, size, APART * call, split);
        good = n >= 0;
        split = n ? 1 : split + 1; /* the next ring counts its own calls */
        size += n;
    }
    sim_close(&s);
    return good;
}

static void
lives(void)
{
    int good = 0, many = getenv("HOOP_TEST_FULL") ? 100000 : 3000;
    for (int i = 0; i < many; i++)
        good += life();
    is_int(many, good, "seeded lives");
}

int
main(void)
{
    plan_lazy();
    tap_limit(120);
    taken();
    nobody();
    lost();
    unlike();
    same_process();
    stranded();
    failing();
    lives();
    return tap_failures() != 0;
}
