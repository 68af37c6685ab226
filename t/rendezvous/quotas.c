/* SPDX-License-Identifier: MIT */
/*
 * quotas: what one job may take of a server that others share: connections, join groups, patience, the right to knock
 * from one address, splits of rings that are not there. In the job, without sockets; and once with them.
 */
#include "base/clock.h"
#include "base/err.h"
#include "t/rendezvous/ranks.h"
#include "t/rendezvous/sim.h"
#include "t/tap/tap.h"

#include <string.h>
#include <sys/resource.h>

#define MOMENT (500 * HP_MS)

enum { DAY_MS = 86400000, PER_RANK = 256, MEETINGS = 1024, AHEAD = 64, LIMIT = 160 };

/* A rank that says that it has 65535 others has not brought them. */
static void
claimed_worlds(void)
{
    hp_join join = sim_join_of(0, HP_WORLD_MAX, 1);
    sim s;
    sim_open(&s);
    sim_enter(&s, 0, &join);
    ok(hp_admission_expects(s.job) < 64, "a world of 65536 by one member's word: %d may knock from one address",
       hp_admission_expects(s.job));
    int before = hp_admission_expects(s.job);
    for (int i = 1; i < 20; i++) {
        join = sim_join_of(i, HP_WORLD_MAX, 1);
        sim_enter(&s, i, &join);
    }
    ok(hp_admission_expects(s.job) >= before + 19, "with 19 more members more: %d", hp_admission_expects(s.job));
    sim_close(&s);
    join = sim_join_of(0, 3, 1);
    sim_open(&s);
    sim_enter(&s, 0, &join);
    is_int(3, hp_admission_expects(s.job), "never more than the world");
    sim_close(&s);
}

static hp_status
judged(sim *s, uint32_t world, uint64_t lacking)
{
    hp_hello hello = {.my_rank = HP_RANK_UNKNOWN, .world = world};
    return hp_admission_judge(s->job, &hello, lacking, s->now);
}

static void
connections(void)
{
    hp_hello hello = {.my_rank = HP_RANK_UNKNOWN, .world = 2};
    static hp_job_conn conns[2 * PER_RANK + 2];
    hoop_error error;
    int entered = 0;
    sim s;
    sim_open(&s);
    while (entered < 2 * PER_RANK && judged(&s, 2, 0) == HP_OK)
        hp_job_enter(s.job, &conns[entered++], &hello);
    is_int(2 * PER_RANK, entered, "a job of two ranks has %d connections", 2 * PER_RANK);
    ok(!hp_admission_lacks(&conns[entered - 1], &error), "and the last one has a place");
    is_int(HP_BUSY, judged(&s, 2, 0), "the next one must wait for a moment: others may just be leaving");
    is_int(HP_OK, judged(&s, 3, 0), "one of three has more");
    hp_job_lost(&conns[0], NULL, s.now);
    s.now += MOMENT;
    is_int(HP_OK, judged(&s, 2, 0), "a place that is left is free");
    hp_job_enter(s.job, &conns[0], &hello);
    is_int(HP_BUSY, judged(&s, 2, 0), "and when it is taken, one waits a moment again");
    s.now += MOMENT;
    for (; entered < 2 * PER_RANK + 2; entered++) {
        is_int(HP_OK, judged(&s, 2, 0), "who has waited is let in,");
        hp_job_enter(s.job, &conns[entered], &hello);
        ok(hp_admission_lacks(&conns[entered], &error) && strstr(error.text, "256 communicators"), "to hear: %s",
           error.text);
    }
    is_int(HP_FULL, judged(&s, 2, 0), "but not more than one of each rank");
    for (int i = 0; i < entered; i++)
        hp_job_lost(&conns[i], NULL, s.now);
    sim_close(&s);
}

/* Two ranks wait, and the server has no descriptor for the third: all of them hear the limit. */
static void
no_descriptors(void)
{
    hp_join join = sim_join_of(0, 3, 1);
    uint8_t bytes[HP_CONTROL_MAX];
    sim s;
    sim_open(&s);
    is_int(HP_BUSY, judged(&s, 3, 1), "the server has just found no descriptor: a rank must wait for a moment");
    is_int(HP_BUSY, judged(&s, 3, MOMENT - 1), "for half a second");
    is_int(HP_OK, judged(&s, 3, MOMENT), "then it is let in");
    sim_join(&s, 0, &join);
    join = sim_join_of(1, 3, 1);
    sim_join(&s, 1, &join);
    join = sim_join_of(2, 3, 1);
    sim_enter(&s, 2, &join);
    s.conns[2].conn.starved = 1;
    sim_say(&s, 2, HP_JOIN, bytes, hp_join_put(bytes, &join));
    for (int i = 0; i < 3; i++)
        ok(s.conns[i].causes == 1 && s.conns[i].cause_type == HP_REFUSED && s.conns[i].cause.code == HOOP_ERR_SYSTEM &&
               strstr(s.conns[i].cause.text, "RLIMIT_NOFILE"),
           "rank %d: %s", i, s.conns[i].cause.text);
    sim_close(&s);
}

/* 49 days are what 32 bits can say. */
static void
patience(void)
{
    hp_join join = sim_join_of(0, 2, 1);
    sim s;
    sim_open(&s);
    join.patience = UINT32_MAX;
    sim_join(&s, 0, &join);
    s.now += (DAY_MS - 1000) * HP_MS;
    sim_pass(&s, 100);
    is_int(0, s.conns[0].causes, "a patient rank waits a day");
    sim_pass(&s, 1000);
    is_int(HOOP_ERR_RENDEZVOUS, s.conns[0].cause.code, "and no longer: %s", s.conns[0].cause.text);
    sim_close(&s);
}

static int
count_join_groups(const sim *s)
{
    int n = 0;
    for (const hp_join_group *m = s->job->join_groups; m; m = m->next)
        n++;
    return n;
}

/* Rings of two, of which one rank refuses all splits that it may: each is kept for the other rank. */
static void
join_groups(void)
{
    uint8_t bytes[HP_REFUSAL_BYTES];
    hoop_error cause;
    int breaches = 0, last = 2 * (MEETINGS / AHEAD + 1);
    sim s;
    sim_open(&s);
    hp_err_set(&cause, HOOP_ERR_ABORTED, "no");
    for (int g = 0; g < last; g += 2) {
        for (int i = 0; i < 2; i++) {
            hp_join join = sim_join_of(i, 2, 1);
            join.member.pid = 1;
            sim_join(&s, g + i, &join);
        }
        for (int i = 0; i < 2; i++)
            sim_say(&s, g + i, HP_READY, NULL, 0);
        for (uint32_t split = 1; split <= AHEAD - 1; split++)
            breaches += sim_say(&s, g, HP_REFUSED, bytes, hp_refusal_put(bytes, split, &cause)) != 0;
    }
    ok(s.conns[0].go && s.conns[last - 1].go, "%d rings of one job stand", last / 2);
    is_int(0, breaches, "and refuse what they may refuse");
    is_int(MEETINGS, count_join_groups(&s), "so many join groups are kept, and no more");
    hp_join join = sim_join_of(0, 2, 1);
    join.member.pid = 1;
    sim_join(&s, last, &join);
    ok(s.conns[last].cause_type == HP_REFUSED && s.conns[last].cause.code == HOOP_ERR_NO_MEMORY,
       "a newcomer is told: %s", s.conns[last].cause.text);
    sim_close(&s);
}

/* As after a restart of the server, of which the ring knows nothing. */
static void
unknown_parents(void)
{
    sim s;
    sim_open(&s);
    sim_world(&s, 4, 2);
    hp_join join = sim_join_of(1, 4, 2);
    join.member.rank = -1;
    join.size = 0;
    join.parent = s.conns[0].ring.comm + 1000;
    join.split = 1;
    join.parent_rank = 1;
    join.parent_size = 4;
    sim_join(&s, 20, &join);
    ok(s.conns[20].cause_type == HP_REFUSED && s.conns[20].cause.code == HOOP_ERR_RENDEZVOUS &&
           strstr(s.conns[20].cause.text, "does not know the communicator that rank 1 splits"),
       "a split of an unknown ring is refused: %s", s.conns[20].cause.text);
    join.parent = s.conns[0].ring.comm;
    join.parent_size = 5;
    sim_join(&s, 21, &join);
    ok(s.conns[21].cause_type == HP_REFUSED && s.conns[21].cause.code == HOOP_ERR_RENDEZVOUS,
       "and one of a ring that is larger than the one of that number");
    ok(!s.job->join_groups && s.conns[0].causes == 0, "nothing is kept of them, and nobody else is told");
    join.parent_size = 4;
    sim_join(&s, 22, &join);
    is_int(0, s.conns[22].causes, "the ring that is there may be split");
    sim_close(&s);
}

/* One job has so many connections that, without a share, no descriptor would be left for another. */
static void
descriptors(void)
{
    struct rlimit old, low;
    static hp_client *greedy[LIMIT], *others[2];
    meet m;
    getrlimit(RLIMIT_NOFILE, &old);
    low = old;
    low.rlim_cur = 4 * LIMIT / 3;
    setrlimit(RLIMIT_NOFILE, &low);
    meet_open(&m);
    setrlimit(RLIMIT_NOFILE, &old); /* the clients live in this process too */
    for (int i = 0; i < LIMIT; i++) {
        hp_client_options o = rank_options(&m, "greedy", i, HP_WORLD_MAX, 1, 2 * SOON_MS);
        greedy[i] = rank_join(&m, &o);
    }
    meet_run(&m, 1000);
    hp_client_options o = rank_options(&m, "greedy", LIMIT, HP_WORLD_MAX, 1, 6000);
    hp_client *late = rank_join(&m, &o);
    ok(ranks_reach(&m, &late, 1, HP_CLIENT_FAILED, SOON_MS), "a job that has its share of descriptors gets no more");
    ok(strstr(hp_client_error(late)->text, "no room"), "%s", hp_client_error(late)->text);
    for (int i = 0; i < 2; i++) {
        hp_client_options other = rank_options(&m, "modest", i, 2, 1, SOON_MS);
        others[i] = rank_join(&m, &other);
    }
    ok(ranks_go(&m, others, 2, SOON_MS), "and another one meets");
    ranks_free(others, 2);
    ranks_free(&late, 1);
    ranks_free(greedy, LIMIT);
    meet_close(&m);
}

int
main(void)
{
    tap_limit(240);
    plan_lazy();
    claimed_worlds();
    connections();
    no_descriptors();
    patience();
    join_groups();
    unknown_parents();
    descriptors();
    return 0;
}
