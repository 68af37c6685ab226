/* SPDX-License-Identifier: MIT */
/*
 * missing_ranks: what is said of a world while ranks are missing, and when all have come; through the job, by its
 * clock.
 */
#include "base/clock.h"
#include "t/rendezvous/sim.h"
#include "t/tap/tap.h"

#include <string.h>

static void
warned(const sim *s, const char *words, const char *what)
{
    const char *line = strncmp(s->warning, "job ", 4) == 0 ? strchr(s->warning, ':') : NULL;
    is_string(words, line ? line + 2 : s->warning, "%s", what);
}

/* One of four ranks that wait for a minute. */
static hp_join
patient(int rank)
{
    hp_join join = sim_join_of(rank, 4, 1);
    join.patience = 60000;
    join.warn_after = 30 * HP_SEC;
    return join;
}

/* Nobody waits in the dark: what is said before the time-out, and when all have come after all. */
static void
test_awaited(void)
{
    sim s;
    sim_open(&s);
    for (int i = 0; i < 4; i++) {
        hp_join join = patient(i);
        if (i != 1)
            sim_join(&s, i, &join);
    }
    sim_pass(&s, 4900);
    is_int(0, s.warnings, "a rank is missing: nothing is said for five seconds");
    sim_pass(&s, 150);
    warned(&s, "3 of 4 ranks are here after 5.0 s; rank 1 is missing", "then who it is");
    sim_pass(&s, 4800);
    is_int(1, s.warnings, "once");
    sim_pass(&s, 15350);
    is_int(3, s.warnings, "again after 10 and 20 seconds");
    warned(&s, "3 of 4 ranks are here after 20.0 s; rank 1 is missing", "with the time");
    hp_join late = sim_join_of(1, 4, 1);
    sim_join(&s, 1, &late);
    warned(&s, "all 4 ranks are here after 25.2 s", "it comes: the last line");
    is_int(4, s.warnings, "at once");
    is_int(1, s.conns[0].joined, "and the ring is made");
    sim_close(&s);
}

/* The ranks have joined, but some cannot connect to their neighbours. */
static void
test_links(void)
{
    sim s;
    sim_open(&s);
    for (int i = 0; i < 4; i++) {
        hp_join join = patient(i);
        sim_pass(&s, 1000);
        sim_join(&s, i, &join);
    }
    sim_say(&s, 0, HP_READY, NULL, 0);
    sim_say(&s, 3, HP_READY, NULL, 0);
    sim_pass(&s, 4900);
    is_int(0, s.warnings, "two ranks are not connected: nothing is said for five seconds after the last has joined");
    sim_pass(&s, 150);
    warned(&s,
           "all 4 ranks are here, but after 5.0 s the connections of ranks 1-2 are not up: can the hosts reach each "
           "other, "
           "or does a firewall close their ports, see hoop_launch(7)?",
           "then which ranks");
    sim_say(&s, 1, HP_READY, NULL, 0);
    sim_pass(&s, 5000);
    warned(&s,
           "all 4 ranks are here, but after 10.0 s the connections of rank 2 are not up: can the hosts reach each "
           "other, or "
           "does a firewall close their ports, see hoop_launch(7)?",
           "again, and with what has changed");
    is_int(2, s.warnings, "at doubling intervals");
    sim_pass(&s, 2000);
    sim_say(&s, 2, HP_READY, NULL, 0);
    warned(&s, "the connections of all 4 ranks are up after 12.1 s", "they are up: the last line");
    sim_pass(&s, 60000);
    is_int(3, s.warnings, "at once, and no other");
    sim_close(&s);
}

/* Who knocks with another secret is named to those who wait: it may be the rank that is missing. */
static void
test_mistrusted(void)
{
    sim s;
    sim_open(&s);
    hp_join join = sim_join_of(0, 2, 1);
    join.patience = 6000;
    join.warn_after = HP_SEC;
    hp_job_mistrust(s.job, "10.0.0.1:1");
    sim_join(&s, 0, &join);
    hp_job_mistrust(s.job, "10.0.0.2:4000");
    sim_pass(&s, 5050);
    warned(&s, "1 of 2 ranks is here after 5.0 s; rank 1 is missing; a process at 10.0.0.2:4000 has another secret",
           "a process with another secret");
    sim_pass(&s, 1000);
    ok(strstr(s.conns[0].cause.text, "1 rank on node1 is waiting; a process at 10.0.0.2:4000 has another secret"), "%s",
       s.conns[0].cause.text);
    sim_close(&s);
}

static void
await(sim *s, int came, int size, int given, uint64_t warn_after)
{
    sim_open(s);
    for (int i = 0; i < came; i++) {
        hp_join join = sim_join_of(given ? i : -1, size, 1);
        join.patience = 60000;
        join.warn_after = warn_after;
        sim_join(s, i, &join);
    }
    sim_pass(s, 5050);
}

static void
test_awaited_many(void)
{
    sim s;
    await(&s, 1, 64, 1, HP_SEC);
    warned(&s, "1 of 64 ranks is here after 5.0 s; ranks 1-63 are missing", "many are missing");
    sim_close(&s);
    await(&s, 3, 8, 1, HP_SEC);
    s.per_host = 3;
    sim_pass(&s, 5000);
    warned(&s, "3 of 8 ranks are here after 10.0 s; ranks 3-7 are missing", "on several hosts");
    sim_close(&s);
    await(&s, 6, 8, 1, HP_SEC);
    s.per_host = 3;
    sim_pass(&s, 5000);
    warned(&s, "6 of 8 ranks are here after 10.0 s; ranks 6-7 (node3) are missing", "all on one host: which");
    sim_close(&s);
    await(&s, 1, 3, 0, HP_SEC);
    warned(&s, "1 of 3 ranks is here after 5.0 s; 2 are missing", "the server gives the ranks");
    sim_close(&s);
    await(&s, 2, 3, 1, 0);
    is_int(0, s.warnings, "HOOP_WARN_AFTER_MS=0: who does not want to hear of it does not");
    hp_join last = sim_join_of(2, 3, 1);
    sim_join(&s, 2, &last);
    is_int(0, s.warnings, "nor of its end");
    sim_close(&s);
    await(&s, 2, 3, 1, HP_SEC);
    sim_lose(&s, 0);
    sim_lose(&s, 1);
    sim_pass(&s, 60000);
    is_int(1, s.warnings, "where all have gone nothing more is said");
    sim_close(&s);
}

int
main(void)
{
    plan_lazy();
    test_awaited();
    test_links();
    test_awaited_many();
    test_mistrusted();
    return 0;
}
