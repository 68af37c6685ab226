/* SPDX-License-Identifier: MIT */
/* How long the ranks of a ring wait at most, by their reports, and which rank an overdue wait names. */
#include "rendezvous/hold_up.h"

#include "base/clock.h"
#include "base/dtype.h"
#include "t/tap/tap.h"

#include <stdio.h>
#include <string.h>

enum { N = 4 };

static hp_witness witnesses[N];
static hp_member members[N];
static const uint64_t now = 100 * HP_SEC;

/* All ranks wait in operation 7, each for the next one. */
static void
all_in(void)
{
    memset(witnesses, 0, sizeof(witnesses));
    for (int i = 0; i < N; i++) {
        members[i] = (hp_member){.rank = i, .host = "node", .pid = (uint32_t)(100 + i)};
        witnesses[i] = (hp_witness){.in_op = 1, .last_seen = now, .completed = 6};
        witnesses[i].report =
            (hp_report){.sequence = 7, .awaited = {HP_WAIT_PEER, (i + 1) % N}, .call.kind = HP_BARRIER};
    }
}

static void
test_shortest(void)
{
    all_in();
    ok(hp_limit_shortest(witnesses, N, 0) == HP_NEVER, "no rank has a limit");
    is_uint(5, hp_limit_shortest(witnesses, N, 5), "the limit of JOIN");
    witnesses[2].report.limit = 3;
    is_uint(3, hp_limit_shortest(witnesses, N, 5), "a shorter one counts");
    is_uint(3, hp_limit_shortest(witnesses, N, 0), "also beside none");
    witnesses[2].in_op = 0;
    is_uint(5, hp_limit_shortest(witnesses, N, 5), "not of a rank in no operation");
    for (int i = 0; i < N; i++)
        witnesses[i].report.limit = i == 1 ? 9 : HP_NEVER;
    is_uint(9, hp_limit_shortest(witnesses, N, 5), "a longer one counts where every rank has one");
    witnesses[1].in_op = 0;
    ok(hp_limit_shortest(witnesses, N, 5) == HP_NEVER, "never");
}

static hp_process
process_of(void *arg, int rank, uint32_t pid)
{
    return rank == 1 ? HP_PROCESS_RUNS : HP_PROCESS_UNKNOWN;
}

static const hp_events events = {.starter.process = process_of};
static void *peers[N];
static hp_witness others[2];
static hp_member other_members[2];
static hp_roster rosters[2];

/* Two rings of one job: the second one has ranks 0 and 2 of the first. */
static hp_job
make_job(void)
{
    for (int i = 0; i < 2; i++) {
        other_members[i] = members[2 * i];
        other_members[i].rank = i;
    }
    rosters[0] = (hp_roster){.events = &events,
                             .state = HP_ROSTER_RUNNING,
                             .world = 1,
                             .ring = {.comm = 1, .size = N, .members = members},
                             .witnesses = witnesses,
                             .peers = peers,
                             .heartbeat = HP_SEC / 3,
                             .moved = now};
    rosters[1] = rosters[0];
    rosters[1].world = 0;
    rosters[1].ring = (hp_ring){.comm = 2, .size = 2, .members = other_members};
    rosters[1].witnesses = others;
    rosters[1].next = &rosters[0];
    rosters[1].in_op_n = others[0].in_op;
    rosters[1].moved = now - 10 * HP_SEC;
    return (hp_job){.owner = &events, .rosters = &rosters[1]};
}

static void
overran(int guilty, const char *words, const char *what)
{
    hoop_error error;
    hp_job job = make_job();
    hp_whereabouts where = hp_whereabouts_take(&job, NULL, now);
    hp_hold_up_timeout(&where, &rosters[0], now + HP_SEC / 2, &error);
    hp_whereabouts_free(&where);
    ok(error.code == HOOP_ERR_TIMEOUT && error.rank == guilty && error.reporter == 3 && error.sequence == 7 &&
           strstr(error.text, words),
       "%s: %s", what, error.text);
}

static void
test_overdue(void)
{
    all_in();
    is_int(-1, hp_limit_overdue(witnesses, N), "no wait is overdue");
    witnesses[3].report.overdue = 2 * HP_SEC;
    is_int(3, hp_limit_overdue(witnesses, N), "one is");
    overran(3, "rank 3 (node) has waited 2.5 s for operation 7 (barrier), which was the limit of that wait",
            "all ranks are in the operation");
    witnesses[1].in_op = 0;
    overran(1, "rank 1 (node, pid 101) has not entered operation 7 (barrier), and its process runs", "one is missing");
    ok(hp_limit_overdue(witnesses, N) == 3, "and the wait is still overdue");
    witnesses[1].in_op = 1;
    witnesses[0].in_op = 0;
    others[0] = witnesses[1];
    overran(2, "for rank 2 (node, pid 102), which has not entered it", "the missing one waits in another ring");
    others[0].in_op = 0;
    witnesses[0].in_op = 1;
    witnesses[1].last_seen = now - 5 * HP_SEC;
    overran(1, "rank 1 (node, pid 101) is stopped or unreachable", "one is silent");
    witnesses[3].in_op = 0;
    is_int(-1, hp_limit_overdue(witnesses, N), "a rank that is out waits no longer");
}

int
main(void)
{
    plan_lazy();
    tap_limit(240);
    test_shortest();
    test_overdue();
    return tap_failures() != 0;
}
