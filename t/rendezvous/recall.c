/* SPDX-License-Identifier: MIT */
/*
 * A server that has died, and is told of its rings: by more than half of a ring's ranks, by ranks that split it, and by
 * those that have been left behind; and what it says when too few come. Without sockets and without a clock.
 */
#include "t/rendezvous/sim.h"

#include "base/clock.h"
#include "base/err.h"
#include "rendezvous/recall.h"
#include "t/tap/tap.h"

#include <string.h>

enum { N = 4 };

static sim s;

/* The conns' rings stay, as what their ranks know. */
static void
die(void)
{
    uint8_t job_id[HP_JOB_ID_BYTES];
    memcpy(job_id, s.job->job_id, sizeof(job_id));
    for (int g = 0; g < SIM_MAX; g++)
        s.conns[g].present = 0;
    hp_job_free(s.job);
    s.job = hp_job_new(&s.events, job_id, NULL, 77);
    if (!s.job)
        bail("no job");
}

static void
enter(int g, const hp_join *join)
{
    uint8_t bytes[HP_CONTROL_MAX];
    hp_hello hello = {.comm = join->ring ? join->ring : join->parent,
                      .my_rank = (uint32_t)(join->ring ? join->member.rank : join->parent_rank),
                      .world = (uint32_t)(join->ring ? join->size : join->parent_size)};
    memset(&s.conns[g], 0, sizeof(s.conns[g]));
    s.conns[g].present = 1;
    hp_job_enter(s.job, &s.conns[g].conn, &hello);
    s.conns[g].conn.recalls = 1;
    sim_say(&s, g, join->shrink ? HP_SHRINK : join->grow ? HP_GROW : HP_JOIN, bytes, hp_join_put(bytes, join));
}

/* Conn g comes as the member that conn `was` was. */
static void
come(int g, int was)
{
    const hp_ring *ring = &s.conns[was].ring;
    enter(g, &(hp_join){.member = ring->members[s.conns[was].rank],
                        .size = ring->size,
                        .ring = ring->comm,
                        .epoch = ring->epoch,
                        .digest = hp_ring_digest(ring),
                        .parent_rank = -1,
                        .agree = "slice=1\n",
                        .agree_n = 8});
}

/* It tells of that ring. */
static int
state(int g, int was, const hp_statement *statement, int with_roster)
{
    const hp_ring *ring = &s.conns[was].ring;
    uint8_t bytes[HP_CONTROL_MAX];
    hp_statement_put(bytes, statement);
    int result = sim_say(&s, g, HP_RECALL, bytes, HP_RECALL_BYTES);
    for (int next = 0; with_roster && result == 0 && next < ring->size;) {
        size_t n = hp_part_put(bytes, ring, s.conns[was].rank, next, &next);
        result = sim_say(&s, g, HP_ROSTER, bytes, n);
    }
    return result;
}

static int
tell(int g, int was, uint64_t lineage, int with_roster)
{
    const hp_statement statement = {
        .origin = {.lineage = lineage}, .epoch = s.conns[was].ring.epoch, .standing = HP_STANDS_RUNNING};
    return state(g, was, &statement, with_roster);
}

static void
come_and_tell(int g, int was, uint64_t lineage, int with_roster)
{
    come(g, was);
    tell(g, was, lineage, with_roster);
}

static void
majority(void)
{
    sim_open(&s);
    sim_world(&s, N, 1);
    uint64_t comm = s.conns[0].ring.comm;
    die();
    come_and_tell(10, 0, comm, 1);
    come_and_tell(11, 1, comm, 0);
    ok(!s.conns[10].go && !s.job->rosters, "half of the ranks are too few");
    come(12, 2);
    ok(!s.conns[10].go, "one that has told nothing does not count");
    tell(12, 2, comm, 0);
    ok(s.conns[10].go == 1 && s.conns[11].go == 1 && s.conns[12].go == 1, "three of four are enough");
    is_string("job 4f21c0de: known again, by its ranks: the server was started again", s.line, "the log says so");
    come(13, 3);
    is_int(1, s.conns[13].go, "the last one is a member as any other");
    for (int g = 10; g < 10 + N; g++)
        sim_count(&s, g, HP_LEAVE, 7);
    is_string("job 4f21c0de: over: all 4 ranks left after 7 operations", s.line, "and the job ends as any other");
    sim_close(&s);
}

/* A rank that is slow to answer is asked again, when the one that was asked instead has gone: both of its answers count as one. */
static void
asked_twice(void)
{
    sim_open(&s);
    sim_world(&s, N, 1);
    uint64_t comm = s.conns[0].ring.comm;
    die();
    come(10, 0);
    come_and_tell(11, 1, comm, 0);
    sim_pass(&s, 2500);
    sim_lose(&s, 11);
    ok(tell(10, 0, comm, 1) == 0 && tell(10, 0, comm, 1) == 0, "it tells the roster twice");
    come_and_tell(12, 2, comm, 0);
    come_and_tell(13, 3, comm, 0);
    is_int(1, s.conns[10].go, "and the ring is known");
    sim_close(&s);
}

/* Of a rank that never comes, and whose process has ended, only its neighbours know whether it has left. */
enum { LEFT, LOST, AWAITED, IN_SPLIT }; /* how the others miss it */

static void
miss(int how)
{
    if (how == LOST)
        sim_lost(&s, 10, 3, 104, 5);
    if (how == AWAITED)
        sim_report(&s, 10, 5, 1, 3);
    for (int i = 0; how == IN_SPLIT && i < 3; i++) {
        hp_join join = sim_derived_of(&s, i);
        join.split = 1;
        join.patience = 60000;
        enter(20 + i, &join);
    }
}

static void
one_has_left(int how)
{
    sim_open(&s);
    sim_world(&s, N, 1);
    uint64_t comm = s.conns[0].ring.comm;
    const hp_member left = s.conns[0].ring.members[3];
    die();
    for (int i = 0; i < 3; i++)
        come_and_tell(10 + i, i, comm, i == 0);
    hp_job_probed(s.job, &left, 1, s.now);
    sim_pass(&s, 20000);
    is_int(0, s.conns[10].causes, "a rank that may have left before is not missed");
    if (how != LEFT) {
        miss(how);
        hp_job_probed(s.job, &left, 1, s.now);
        sim_pass(&s, 2000);
        is_int(3, s.conns[11].cause.rank, "until another rank does: %s", s.conns[11].cause.text);
    }
    for (int g = 10; g < 13; g++) {
        sim_count(&s, g, HP_LEAVE, 7);
        sim_lose(&s, g);
    }
    is_int(how != LEFT, s.conns[12].causes, "the others leave as in any job");
    sim_pass(&s, 60000);
    ok(!s.job->rosters, "and it is over");
    sim_close(&s);
}

/* A world, and with what its ranks split it. Returns its number. */
static uint64_t
open_split(hp_join joins[N])
{
    sim_open(&s);
    sim_world(&s, N, 1);
    for (int i = 0; i < N; i++)
        joins[i] = sim_derived_of(&s, i);
    return s.conns[0].ring.comm;
}

static void
split(void)
{
    hp_join joins[N];
    uint64_t comm = open_split(joins);
    for (int i = 0; i < N; i++)
        joins[i].split = 99;
    die();
    for (int i = 0; i < N; i++) {
        enter(10 + i, &joins[i]);
        if (i < 3)
            tell(10 + i, i, comm, i == 0);
    }
    ok(sim_has_ring(&s, 10, 0, N, 0) && sim_has_ring(&s, 13, 3, N, 0), "a split of any number makes its parent known");
    sim_close(&s);
}

/* Even ranks and odd ones are to have a ring each, as split 3. The ranks in `told` had theirs when the server died. */
static void
split_in_halves(hp_join joins[N])
{
    open_split(joins);
    for (int i = 0; i < N; i++) {
        joins[i].split = 3;
        joins[i].color = i % 2;
        joins[i].epoch = 7 + (uint32_t)i;
        sim_join(&s, 20 + i, &joins[i]);
    }
    die();
}

/* The first members of the parent come back. That split is over for the even ones. */
static void
parent_comes(uint64_t comm, int count)
{
    for (int i = 0; i < count; i++) {
        const hp_statement statement = {
            .origin = {.lineage = comm}, .standing = HP_STANDS_RUNNING, .placed = i % 2 ? 2 : 3};
        come(10 + i, i);
        state(10 + i, i, &statement, i == 0);
    }
}

static void
one_colour(int parent_first)
{
    hp_join joins[N], next;
    split_in_halves(joins);
    uint64_t comm = s.conns[0].ring.comm;
    if (parent_first)
        parent_comes(comm, N);
    next = joins[0];
    next.split = 4;
    enter(40, &next); /* it is on already */
    enter(31, &joins[1]);
    enter(33, &joins[3]);
    if (!parent_first) {
        parent_comes(comm, N);
        sim_pass(&s, 2500); /* the first to come was asked for the roster, and tells nothing */
        tell(13, 3, comm, 1);
    }
    ok(sim_has_ring(&s, 31, 0, 2, 0) && sim_has_ring(&s, 33, 1, 2, 0),
       "a split is over for half of the ranks: the others are not kept waiting, %s",
       parent_first ? "if they come last" : "if they come first");
    is_int(0, s.conns[40].causes, "nor is one that has gone on ended");
    sim_close(&s);
}

/* When rank 3 comes, whose ring rank 1 has. */
enum { FIRST, AGAIN, LAST };

static void
one_rank(int comes)
{
    static const char *const when[] = {"at once", "when its connection is back", "if it comes last"};
    hp_join joins[N];
    split_in_halves(joins);
    joins[3].epoch = 9; /* so that it may dial again */
    uint64_t comm = s.conns[0].ring.comm;
    const hp_statement statement = {.origin = {.lineage = s.conns[21].ring.comm, .split = 3, .color = 1},
                                    .standing = HP_STANDS_ASSIGNED,
                                    .patience = 5000};
    parent_comes(comm, comes == LAST ? N - 1 : N);
    if (comes != LAST) {
        enter(33, &joins[3]);
        ok(!s.conns[33].ring.size, "one whose ring another rank has waits for that");
    }
    if (comes == AGAIN)
        sim_break(&s, 33);
    come(31, 21);
    state(31, 21, &statement, 1);
    if (comes != FIRST)
        enter(33, &joins[3]);
    ok(sim_has_ring(&s, 33, 1, 2, 0), "and gets its place in it, %s", when[comes]);
    is_int(0, (long)(s.job->join_groups != NULL), "nobody is in the split any more");
    ok(hp_job_ring(s.job->rosters, comm)->splits <= 3, "which is not over for those who come yet");
    sim_close(&s);
}

/*
 * A rank that waits in a split tells which splits are over for it, though its parent's own connection is not back. The last one
 * is asked: the parent is known by then.
 */
static void
gone_on(void)
{
    static const int order[N] = {0, 1, 3, 2};
    hp_join joins[N];
    uint64_t comm = open_split(joins);
    for (int i = 0; i < N; i++)
        joins[i].split = i < 3 ? 2 : 1;
    die();
    for (int k = 0; k < N; k++) {
        int i = order[k];
        const hp_statement statement = {
            .origin = {.lineage = comm}, .standing = HP_STANDS_RUNNING, .placed = joins[i].split - 1};
        enter(20 + i, &joins[i]);
        ok(!s.conns[23].ring.size, "rank %d says nothing yet", i);
        state(20 + i, i, &statement, i == 0);
    }
    ok(sim_has_ring(&s, 23, 0, 1, 0), "the last one in a split is not kept waiting");
    is_int(0, s.conns[20].causes, "nor are those that wait for it in the next one ended");
    joins[3].split = 2;
    enter(33, &joins[3]);
    ok(sim_has_ring(&s, 20, 0, N, 0) && sim_has_ring(&s, 33, 3, N, 0), "to which it comes then");
    sim_close(&s);
}

/* Ranks for which the split is over use their part alone, and do not come to the parent. */
static void
part_alone(void)
{
    hp_join joins[N];
    split_in_halves(joins);
    uint64_t comm = s.conns[0].ring.comm, part = s.conns[20].ring.comm;
    const hp_statement of_part = {.origin = {.lineage = part, .parent = comm, .split = 3, .color = 0},
                                  .standing = HP_STANDS_RUNNING};
    for (int i = 0; i < N; i += 2) {
        come(30 + i, 20 + i);
        state(30 + i, 20 + i, &of_part, i == 0);
    }
    for (int i = 1; i < N; i += 2) {
        enter(30 + i, &joins[i]);
        tell(30 + i, i, comm, i == 1);
    }
    ok(s.conns[30].go == 1 && s.conns[32].go == 1, "a part is known again, and its parent is not");
    ok(sim_has_ring(&s, 31, 0, 2, 0) && sim_has_ring(&s, 33, 1, 2, 0), "until others split that");
    sim_close(&s);
}

/* One rank of a part may have begun to use it, and gone: the others, whose links are up, hear nothing more from it. */
static void
one_has_begun(int begun)
{
    sim_open(&s);
    sim_world(&s, N, 1);
    sim_split(&s, 20, 0, 0);
    uint64_t comm = s.conns[0].ring.comm;
    const hp_statement of_part = {.origin = {.lineage = s.conns[20].ring.comm, .parent = comm, .split = 1},
                                  .standing = HP_STANDS_LINKED,
                                  .patience = 5000};
    die();
    for (int i = 1; i < N; i++) {
        come(30 + i, 20 + i);
        state(30 + i, 20 + i, &of_part, i == 1);
        sim_say(&s, 30 + i, HP_READY, NULL, 0);
    }
    for (int i = 0; i < N; i++) {
        const hp_statement statement = {
            .origin = {.lineage = comm}, .standing = HP_STANDS_RUNNING, .placed = i == 0 && begun};
        come(10 + i, i);
        state(10 + i, i, &statement, i == 0);
    }
    is_int(begun, s.conns[31].go, "a part of which one rank is missing begins %s", begun ? "if that has begun" : "not");
    is_int(begun, s.conns[33].go, "for all who wait");
    sim_close(&s);
}

/* A rank ends that is back in its part, and not in the parent: it has not left that. */
static void
one_ends(int parent_first)
{
    sim_open(&s);
    sim_world(&s, N, 1);
    sim_split(&s, 20, 0, 0);
    uint64_t comm = s.conns[0].ring.comm;
    const hp_member gone = s.conns[0].ring.members[3];
    const hp_statement of_part = {.origin = {.lineage = s.conns[20].ring.comm, .parent = comm, .split = 1},
                                  .standing = HP_STANDS_RUNNING};
    die();
    for (int i = 0; i < N; i++) {
        come(30 + i, 20 + i);
        state(30 + i, 20 + i, &of_part, i == 0);
    }
    for (int i = 0; parent_first && i < N - 1; i++)
        come_and_tell(10 + i, i, comm, i == 0);
    sim_break(&s, 33);
    hp_job_probed(s.job, &gone, 1, s.now);
    is_int(3, s.conns[30].cause.rank, "a rank has ended: its part hears that");
    for (int i = 0; !parent_first && i < N - 1; i++)
        come_and_tell(10 + i, i, comm, i == 0);
    sim_pass(&s, 50);
    sim_lose(&s, 31);
    sim_lose(&s, 11);
    if (!parent_first)
        ok(s.conns[10].causes == 0, "the parent, which is known again now, waits for a probe when another one ends");
    hp_job_probed(s.job, &gone, 1, s.now);
    ok(s.conns[10].causes == 1 && s.conns[10].cause.rank == 3, "and so does the parent: %s", s.conns[10].cause.text);
    sim_close(&s);
}

/* A rank whose call has failed is not one for which the split is over. */
static void
refuses(int first)
{
    uint8_t payload[HP_REFUSAL_BYTES];
    hoop_error cause;
    hp_join joins[N];
    split_in_halves(joins);
    uint64_t comm = s.conns[0].ring.comm;
    for (int i = 0; i < N; i++) {
        const hp_statement statement = {.origin = {.lineage = comm}, .standing = HP_STANDS_RUNNING, .placed = 2};
        come(10 + i, i);
        state(10 + i, i, &statement, i == 0);
    }
    hp_err_set(&cause, HOOP_ERR_ABORTED, "rank 0 could not take part in the split");
    size_t n = hp_refusal_put(payload, 3, &cause);
    hp_join next = joins[0];
    next.split = 4;
    if (first)
        sim_say(&s, 10, HP_REFUSED, payload, n);
    else
        enter(41, &next);
    for (int i = 1; i < N; i++)
        enter(30 + i, &joins[i]);
    if (!first)
        sim_say(&s, 10, HP_REFUSED, payload, n);
    is_int(0, s.conns[31].cause.rank, "one that cannot take part ends the split, %s: %s", first ? "first" : "last",
           s.conns[31].cause.text);
    enter(40, &next);
    ok(!s.conns[31].ring.size && s.conns[31].causes == 1, "and its next split does not complete it");
    sim_close(&s);
}

/* Nobody waited to join, as some ranks were told: if one does now, it waits for the next grow. */
static void
no_grow(void)
{
    hp_join newcomer = sim_join_of(-1, 1, 1);
    sim_open(&s);
    sim_world(&s, N, 1);
    uint64_t comm = s.conns[0].ring.comm;
    die();
    for (int i = 0; i < N; i++) {
        const hp_statement statement = {.origin = {.lineage = comm}, .standing = HP_STANDS_RUNNING, .placed = i < 2};
        come(10 + i, i);
        state(10 + i, i, &statement, i == 0);
    }
    newcomer.grow = 1;
    sim_join(&s, 40, &newcomer);
    for (int i = 2; i < N; i++) {
        hp_join join = sim_derived_of(&s, i);
        join.split = 1;
        join.grow = 1;
        enter(30 + i, &join);
    }
    ok(s.conns[32].empty == 1 && s.conns[33].empty == 1, "a ring that has not grown for some does not grow for others");
    ok(!s.conns[40].ring.size, "the newcomer waits");
    sim_close(&s);
}

static void
too_few(void)
{
    sim_open(&s);
    sim_world(&s, N, 1);
    hp_join join = sim_derived_of(&s, 1);
    join.split = 1;
    uint64_t comm = s.conns[0].ring.comm;
    die();
    enter(11, &join);
    tell(11, 1, comm, 1);
    sim_pass(&s, 4000);
    is_int(0, s.conns[11].causes, "a split waits");
    sim_pass(&s, 1500);
    is_string("the rendezvous server was started again, and of the 4 ranks of the communicator that rank 1 splits, "
              "ranks 0 and "
              "2-3 have not come back to it; it needs more than half of them",
              s.conns[11].cause.text, "as long as it has said");
    sim_close(&s);
}

static void
epochs(int early)
{
    sim_open(&s);
    sim_world(&s, N, 1);
    uint64_t comm = s.conns[0].ring.comm;
    sim_lose(&s, 2);
    for (int i = 0; i < N; i++) {
        hp_join join = sim_derived_of(&s, i);
        join.shrink = 1;
        if (i != 2)
            sim_join(&s, 20 + i, &join);
    }
    for (int i = 0; i < N; i++)
        if (i != 2)
            sim_say(&s, 20 + i, HP_READY, NULL, 0);
    if (!s.conns[20].go)
        bail("no second ring");
    die();
    if (early)
        come_and_tell(12, 2, comm, 1);
    come_and_tell(30, 20, comm, 1);
    come_and_tell(31, 21, comm, 0);
    is_int(1, s.conns[30].go, "two of three make the second ring known");
    if (!early)
        come_and_tell(12, 2, comm, 1);
    is_int(HOOP_ERR_STALE_EPOCH, s.conns[12].cause.code, "the one left behind is told of it, if it comes %s",
           early ? "first" : "last");
    ok(strstr(s.conns[12].cause.text, "as epoch 1") != NULL, "%s", s.conns[12].cause.text);
    sim_close(&s);
}

static void
lies(void)
{
    sim_open(&s);
    sim_world(&s, N, 1);
    uint64_t comm = s.conns[0].ring.comm;
    die();
    come(10, 0);
    ok(tell(10, 0, 0, 0) < 0, "a statement without a ring breaks the protocol");
    sim_lose(&s, 10);
    come(11, 1);
    s.conns[1].ring.members[3].pid++;
    ok(tell(11, 1, comm, 1) < 0, "so does a roster that does not have the digest");
    sim_lose(&s, 11);
    come(12, 2);
    ok(tell(12, 2, comm, 1) == 0, "the next one is asked for it");
    sim_close(&s);
}

int
main(void)
{
    plan_lazy();
    tap_limit(60);
    majority();
    asked_twice();
    for (int how = LEFT; how <= IN_SPLIT; how++)
        one_has_left(how);
    split();
    one_colour(0);
    one_colour(1);
    for (int comes = FIRST; comes <= LAST; comes++)
        one_rank(comes);
    gone_on();
    part_alone();
    one_has_begun(0);
    one_has_begun(1);
    one_ends(0);
    one_ends(1);
    refuses(0);
    refuses(1);
    no_grow();
    too_few();
    epochs(0);
    epochs(1);
    lies();
    return tap_failures() != 0;
}
